"""The manifest for Kubernetes has fields that the Kubeflow operator knows, and starts a job that is there.

The operator's own schema is part of no package, so the fields that the manifest uses are written down here.
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from ctr_samples.cli.demo import shipped
from tests.support.project import PROJECT

MANIFEST = PROJECT / "docs/recipes/deployment/spark-application.yaml"


def exactly(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


TEXT, COUNT = {"type": "string"}, {"type": "integer", "minimum": 1}
POD = {
    "cores": COUNT,
    "memory": TEXT,
    "memoryOverhead": TEXT,
    "volumeMounts": {"type": "array", "items": exactly("name", "mountPath", name=TEXT, mountPath=TEXT)},
    "envFrom": {"type": "array", "items": exactly("secretRef", secretRef=exactly("name", name=TEXT))},
}
SCHEMA = exactly(
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
    kind={"const": "SparkApplication"},
    metadata=exactly("name", name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}),
    spec=exactly(
        "type",
        "sparkVersion",
        "mainApplicationFile",
        "driver",
        "executor",
        type={"const": "Python"},
        mode={"enum": ["cluster", "client"]},
        sparkVersion=TEXT,
        image=TEXT,
        mainApplicationFile=TEXT,
        arguments={"type": "array", "items": TEXT},
        sparkConf={"type": "object", "additionalProperties": TEXT},
        restartPolicy=exactly("type", type={"enum": ["Never", "OnFailure", "Always"]}),
        volumes={
            "type": "array",
            "items": {
                "oneOf": [
                    exactly("name", "configMap", name=TEXT, configMap=exactly("name", name=TEXT)),
                    exactly("name", "emptyDir", name=TEXT, emptyDir=exactly(sizeLimit=TEXT)),
                ]
            },
        },
        driver=exactly(**POD, serviceAccount=TEXT),
        executor=exactly(**POD, instances=COUNT),
    ),
)


def test_the_manifest_has_no_field_that_the_operator_does_not_know() -> None:
    assert list(Draft202012Validator(SCHEMA).iter_errors(YAML(typ="safe").load(MANIFEST))) == []


def test_the_manifest_starts_the_job_of_the_packed_environment() -> None:
    spec = YAML(typ="safe").load(MANIFEST)["spec"]
    before, _, job = spec["mainApplicationFile"].partition("/ctr_samples/")
    assert before == "local:///opt/environment/lib/python3.11/site-packages"
    assert shipped(job).exists()
    assert "ADD environment.tar.gz /opt/environment/" in MANIFEST.with_name("Dockerfile").read_text()


def test_the_manifest_mounts_the_configuration_that_the_job_is_given() -> None:
    spec = YAML(typ="safe").load(MANIFEST)["spec"]
    (mount,) = spec["driver"]["volumeMounts"]
    assert spec["arguments"][:2] == ["--config", f"{mount['mountPath']}/feed_ctr.yaml"]
    assert mount["name"] in [volume["name"] for volume in spec["volumes"]]
