"""Workers that are away: what they had waits for their owners, for a while (SHR-4a)."""

from zaichik.core.work_queue.absence import Absence, Absences
from zaichik.core.work_queue.message import OpenMessage


def test_an_owner_is_away_until_it_is_taken_back():
    absences = Absences()
    absence = Absence({5: OpenMessage(1)}, until_us=10)
    absences.add(7, absence)
    assert absences.get(7) is absence
    assert absences.get(8) is None
    assert len(absences) == 1
    assert absences.take(7) is absence
    assert absences.take(7) is None


def test_those_that_have_not_come_in_time_are_taken():
    absences = Absences()
    early = Absence({}, until_us=10)
    absences.add(1, early)
    absences.add(2, Absence({}, until_us=11))
    assert absences.take_ended(9) == []
    assert absences.take_ended(10) == [early]
    assert len(absences) == 1


def test_the_owner_of_each_ticket_is_known():
    absences = Absences()
    absences.add(1, Absence({5: OpenMessage(1), 6: OpenMessage(2)}, until_us=10))
    absences.add(2, Absence({9: OpenMessage(3)}, until_us=10))
    assert absences.owners() == {5: 1, 6: 1, 9: 2}
