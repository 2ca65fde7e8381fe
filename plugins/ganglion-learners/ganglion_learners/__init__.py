"""Learning muscles and brains of Ganglion: one with numpy alone, three with torch.

What other distributions of learners may use of this one is named here; it needs numpy alone.
"""

from ganglion_learners.choice import Choices
from ganglion_learners.ranges import refuse_outside
from ganglion_learners.recording import Recording
from ganglion_learners.update import refused

__all__ = ["Choices", "Recording", "refuse_outside", "refused"]
