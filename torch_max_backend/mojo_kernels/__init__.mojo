from .pointwise import *
from .pointwise_binary import *
from .pooling import *
from .sorting import *
