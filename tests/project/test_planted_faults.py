"""The planted faults fit the code. Whether tests find them says ``python -m tests.planted``."""

from collections import Counter
from pathlib import Path

import pytest

from tests.planted import Fault, faults

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
FAULTS = faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_planted(fault: Fault, tmp_path: Path) -> None:
    copy = tmp_path / fault.file
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / fault.file).read_text(encoding="utf-8"), encoding="utf-8")
    fault.plant(tmp_path)
    if copy.suffix == ".py":
        compile(copy.read_text(encoding="utf-8"), fault.file, "exec")
    assert fault.tests
    assert all((ROOT / folder).exists() for folder in fault.tests)


def test_faults_are_planted_everywhere() -> None:
    of_package = Counter(Path(fault.file).parts[1] for fault in FAULTS)
    assert len(FAULTS) >= 80
    assert {"lua", "transport", "session", "online", "viewed", "cleaning", "admin", "checks", "management"} <= {
        *of_package
    }
