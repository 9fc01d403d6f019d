"""What a set lacks, by one rule for all formats: an error where its numbers would be wrong, else a warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from vfs.errors import FormatError
from vfs.model.layout import altered
from vfs.model.naming import first_names
from vfs.model.open_options import OpenOptions
from vfs.model.stored import Absence, StoredArray, main_of
from vfs.model.wording import ANY, option


def largest_of(datasets: Sequence[StoredArray]) -> StoredArray:
    """Return the largest array, whatever a format says of which may be the main one. Some must be no companions."""
    found = main_of([altered(dataset, main=None) for dataset in datasets if not dataset.companion])
    assert found is not None
    return found


def standing_in(datasets: Sequence[StoredArray], file: str) -> StoredArray:
    """Return the largest array of a set in which no array may be the main one; it says that the main one is absent."""
    found = largest_of(datasets)
    own = [dataset.path for dataset in datasets if not dataset.companion]
    said = (
        f"{file}: expected images or other data to show first, found only what comes beside them: {first_names(own)};"
        f" open one of these by its name with {option(array=ANY)}"
    )
    absence = Absence(said, FormatError, "shows the largest of them", main=True)
    return altered(found, absent=(*found.absent, absence))


def all_absent(datasets: Sequence[StoredArray], main: StoredArray, shown: StoredArray) -> tuple[Absence, ...]:
    """Collect the absences that the arrays of a set report, each one once.

    Args:
        main: the main array as it is stored; shown: the same as it is shown.
    """
    beside = [absence for other in datasets for absence in other.absent if absence not in main.absent]
    return tuple({absence.said: absence for absence in (*shown.absent, *beside)}.values())


def refuse(absent: Sequence[Absence], options: OpenOptions) -> None:
    """Refuse a set whose numbers would be wrong, unless that is allowed.

    Raises:
        VfsError: of the class that the format names; the message ends with the option that allows it.
    """
    for absence in absent:
        if absence.refused is not None and not options.allow_incomplete:
            raise absence.refused(
                f"{absence.said}" + (f"; {option(allow_incomplete=True)} {absence.allowed}" if absence.allowed else "")
            )


def counted(absent: Sequence[Absence]) -> Mapping[str, int]:
    """Return how much is absent of each kind: see `Absence.counts`."""
    counts = Counter[str]()
    for absence in absent:
        counts.update(absence.counts)
    return dict(counts)
