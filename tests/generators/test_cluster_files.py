"""Cluster files: what is accepted, and what is refused before anything starts."""

import sys

import pytest

from generators.cluster_files import load_cluster, start_cluster
from loaders.errors import InputError

pytest.importorskip("distributed")


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "cluster.yaml"
        path.write_text(text)
        return path

    return write


def test_workers_and_adapt_say_how_many(write):
    assert load_cluster(write("{kind: local, workers: 3}")).expected == 3
    assert load_cluster(write("{kind: local, adapt: {maximum: 9}}")).expected == 9
    assert load_cluster(write("{kind: ssh, options: {hosts: [a, b]}}")).expected == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{kind: local}", "expected either workers: N or adapt"),
        ("{kind: local, workers: 2, adapt: {maximum: 3}}", "expected either workers: N or adapt"),
        ("{kind: local, workers: 0}", "workers: .*greater than or equal to 1"),
        ("{kind: local, adapt: {minimum: 5, maximum: 3}}", "expected minimum <= maximum, got 5 and 3"),
        ("{kind: ssh, workers: 2}", "kind ssh: expected options.hosts, and neither workers nor adapt"),
        ("{kind: cloud, workers: 2}", "kind: .*'slurm'.*got 'cloud'"),
        ("{kind: local, worker: 2}", "worker: there is no such field"),
        ("{kind: local, workers: 2, options: {proceses: true}}", "options.proceses: .*; it has processes"),
        (
            "{kind: local, workers: 2, options: {n_workers: 4}}",
            "options.n_workers: LocalCluster has no such option",
        ),
        ("kind: [", "expected YAML"),
        ("!!python/object/apply:os.getcwd []", "expected YAML"),
        ("just text", "expected a mapping of fields, got str"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, text, message):
    with pytest.raises(InputError, match=message) as error:
        load_cluster(write(text))
    assert "\n" not in str(error.value)
    assert "cluster.yaml" in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"No such file or directory; expected a YAML file"):
        load_cluster(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("kind", "module", "extra"),
    [
        ("slurm", "dask_jobqueue", "cluster"),
        ("kubernetes", "dask_kubernetes.operator", "kubernetes"),
    ],
)
def test_a_package_that_is_not_there_names_its_extra(write, monkeypatch, kind, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"kind {kind} needs dask-.*pip install 'candlelight\[{extra}\]'"):
        load_cluster(write(f"{{kind: {kind}, workers: 1}}"))


def test_options_of_jobs_are_known(write):
    pytest.importorskip("dask_jobqueue")
    options = (
        "{cores: 1, memory: 2GB, queue: q, walltime: '01:00:00', job_extra_directives: [], interface: ib0}"
    )
    assert load_cluster(write(f"{{kind: slurm, workers: 1, options: {options}}}")).options["queue"] == "q"
    with pytest.raises(
        InputError, match=r"options\.waltime: SLURMCluster has no such option; it has walltime"
    ):
        load_cluster(write("{kind: slurm, workers: 1, options: {waltime: 1}}"))


def test_batch_systems_start_where_their_commands_are(write, monkeypatch, tmp_path):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setenv("PATH", str(tmp_path))
    file = load_cluster(write("{kind: pbs, workers: 1, options: {cores: 1, memory: 1GB}}"))
    with pytest.raises(InputError, match="qsub is not on this machine"), start_cluster(file, []):
        pass


def test_values_that_a_class_refuses(write):
    file = load_cluster(write("{kind: local, workers: 1, options: {protocol: carrier-pigeon}}"))
    with (
        pytest.raises(InputError, match=r"--cluster: LocalCluster: .*pigeon"),
        start_cluster(file, []),
    ):
        pass
