from .pointwise import *
from .pooling import *
from .sorting import *
