from __future__ import annotations

import subprocess
import sys

import pytest

from ganglion_learners.backend import load_torch

BLOCKED = """
import sys
sys.modules["torch"] = None  # as if it were not installed
from ganglion_learners.sarsa.brain import SarsaBrain
from ganglion_learners.ppo.muscle import PpoMuscle
from ganglion_learners.LEARNER.brain import BRAIN
SarsaBrain()
try:
    BRAIN()
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(("learner", "brain"), [("dqn", "DqnBrain"), ("ppo", "PpoBrain"), ("sac", "SacBrain")])
def test_without_torch_it_says_what_to_install(learner, brain) -> None:
    """Without torch sarsa and all muscles are there; a brain that needs it says by what it gets there."""
    program = BLOCKED.replace("LEARNER", learner).replace("BRAIN", brain)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    told = f"{learner} needs torch, which is not installed: pip install 'ganglion-learners[torch]'\n"
    assert (0, told) == (done.returncode, done.stdout), done.stderr


def test_torch_is_set_to_equal_bits() -> None:
    """One thread, and no algorithm that rounds differently from run to run."""
    torch = pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    load_torch("ppo")

    assert 1 == torch.get_num_threads()
    assert torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("module", ["actor", "dqn.muscle", "ppo.muscle", "sac.muscle", "dqn.brain", "ppo.brain"])
def test_muscles_and_listing_import_no_torch(module) -> None:
    """A muscle's process never imports torch, nor does anybody who only looks at a brain's class."""
    program = f"import sys, ganglion_learners.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert "False\n" == done.stdout, done.stderr
