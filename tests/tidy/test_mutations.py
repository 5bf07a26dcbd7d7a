"""The list of mutations names what is there: a row whose text has changed would prove nothing."""

from tests.mutations.rows import MUTATIONS, ROOT, SIMULATION


def test_text_of_every_mutation_is_in_its_file_once() -> None:
    faults = []
    for mutation in MUTATIONS:
        try:
            mutation.path()
        except LookupError as error:
            faults.append(str(error))
    assert not faults, "\n".join(faults)


def test_tests_of_every_mutation_are_there() -> None:
    faults = []
    for mutation in MUTATIONS:
        for test in mutation.tests.split() if mutation.tests != SIMULATION else ():
            name, _, function = test.partition("::")
            path = ROOT / name
            if not path.is_file() or f"def {function}(" not in path.read_text(encoding="utf-8"):
                faults.append(f"{mutation.name}: no test {test}")
    assert not faults, "\n".join(faults)


def test_names_of_mutations_are_their_own() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
