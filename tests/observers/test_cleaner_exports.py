"""The cleaner exports the numbers of the store; a web process does not."""

from django_redsess import cleaning
from tests.helpers.traces import traced


def test_the_cleaner_exports_the_numbers_of_the_store(settings, new_session) -> None:
    with traced(settings) as traces:
        new_session("7")
        new_session().flush()
        new_session(colour="blue")
        assert not [name for name in traces.metrics if name.startswith("redsess.store")]
        cleaning.report_totals()
        found = {name: points[0].value for name, points in traces.metrics.items() if name.startswith("redsess.store")}
    assert found["redsess.store.signed_in"] == found["redsess.store.guests"] == 1
    assert found["redsess.store.lag_seconds"] == 0
    assert found["redsess.store.created"] >= 2
