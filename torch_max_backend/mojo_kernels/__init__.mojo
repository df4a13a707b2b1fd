from .attention import *
from .creation import *
from .pointwise import *
from .pointwise_binary import *
from .pooling import *
from .reduction import *
from .softmax import *
from .sorting import *
