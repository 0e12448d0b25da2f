"""`Manifest`, the description of an artifact; the artifact's StableHLO module contains it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowering import PLATFORMS, Partitioning
from tenferro.dims import Guard, load_guards, save_guards
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.interruption import is_interruption
from tenferro.types import TensorSpec, TreeDef, load_tree, save_tree

__all__ = ["ATTRIBUTE", "Manifest", "StoredConstant", "weights_name"]

ATTRIBUTE = "tenferro.manifest"
"""Name of the module's attribute that contains the manifest."""
FORMAT = "tenferro-artifact"
VERSION = 1


def weights_name(name: str) -> str:
    """Check that `name` is a safetensors file in the artifact's own folder, and return it.

    Raises:
        InvalidConfigError: the suffix is not `.safetensors`, or the path leads out of the folder.
    """
    if name and (Path(name).name != name or "\\" in name or not name.endswith(".safetensors")):
        raise InvalidConfigError(
            f"artifact: weights must be a .safetensors file in the artifact's folder, got {name!r}"
        )
    return name


@dataclass(frozen=True)
class StoredConstant:
    """A constant that is an argument of the module: its name, its type, and the SHA-256 of its bytes."""

    name: str
    spec: TensorSpec
    digest: str


@dataclass(frozen=True)
class Manifest:
    """Names, types and structure of an artifact, with its platforms and versions.

    Attributes:
        name: the name of the exported function.
        platforms: the platforms for which the module was lowered.
        linalg: "library" if the module calls linear algebra routines of its platforms, else "inline".
        inputs, outputs: (name, type) of each leaf, without constants.
        in_tree, out_tree: the structures of the arguments and of the result.
        constants: the constants that the module takes as arguments after the inputs.
        guards: the conditions on symbolic extents.
        versions: versions of StableHLO, tenferro and jaxlib, by name.
        vectors: SHA-256 of the file of test vectors; "" if the artifact has no vectors.
        has_gradient: whether an artifact of the derivative is stored beside this artifact.
        weights: the name of the safetensors file in the artifact's folder that contains the constants; "" if they are
            in the artifact's `.npz` file.
        partitioning: the mesh, and the partition of inputs and outputs over it; None for a program of one device.
    """

    name: str
    platforms: tuple[str, ...]
    linalg: str
    inputs: tuple[tuple[str, TensorSpec], ...]
    outputs: tuple[tuple[str, TensorSpec], ...]
    in_tree: TreeDef
    out_tree: TreeDef
    constants: tuple[StoredConstant, ...]
    guards: tuple[Guard, ...]
    versions: Mapping[str, str]
    vectors: str = ""
    has_gradient: bool = False
    weights: str = ""
    partitioning: Partitioning | None = None

    def to_json(self) -> str:
        """Return the manifest as a JSON document.

        Raises:
            UnsupportedError: a container in the structures cannot be described in JSON.
        """
        document = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "platforms": self.platforms,
            "linalg": self.linalg,
            "inputs": [[name, str(spec)] for name, spec in self.inputs],
            "outputs": [[name, str(spec)] for name, spec in self.outputs],
            "in_tree": save_tree(self.in_tree),
            "out_tree": save_tree(self.out_tree),
            "constants": [[item.name, str(item.spec), item.digest] for item in self.constants],
            "guards": save_guards(self.guards),
            "versions": dict(self.versions),
            "vectors": self.vectors,
            "has_gradient": self.has_gradient,
            **({"weights": self.weights} if self.weights else {}),
            **({"partitioning": self.partitioning.to_document()} if self.partitioning else {}),
        }
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Create a manifest from a JSON document.

        Raises:
            InvalidConfigError: the document is not a manifest, or is a manifest of a later version.
        """
        try:
            document = json.loads(text)
            if document["format"] != FORMAT:
                raise InvalidConfigError(
                    f"artifact: format {document['format']!r}, expected {FORMAT!r}"
                )
            if document["version"] != VERSION:
                raise InvalidConfigError(
                    f"artifact: written in format {document['version']!r} by tenferro "
                    f"{document.get('versions', {}).get('tenferro', '?')}, this one reads {VERSION}; "
                    "upgrade tenferro"
                )
            return cls._read(document)
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise InvalidConfigError(f"artifact: the manifest is malformed: {error!r}") from error

    @classmethod
    def _read(cls, document: Mapping[str, Any]) -> Manifest:
        inputs, outputs = (
            tuple((str(name), TensorSpec.parse(spec)) for name, spec in document[part])
            for part in ("inputs", "outputs")
        )
        platforms = document["platforms"]
        if not isinstance(platforms, list) or not platforms or set(platforms) - set(PLATFORMS):
            raise InvalidConfigError(
                f"artifact: platforms must be some of {', '.join(PLATFORMS)}, got {platforms!r:.80}"
            )
        return cls(
            name=str(document["name"]),
            platforms=tuple(platforms),
            linalg=str(document["linalg"]),
            inputs=inputs,
            outputs=outputs,
            in_tree=load_tree(document["in_tree"], len(inputs)),
            out_tree=load_tree(document["out_tree"], len(outputs)),
            constants=tuple(
                StoredConstant(str(name), TensorSpec.parse(spec), str(digest))
                for name, spec, digest in document["constants"]
            ),
            guards=load_guards(document["guards"]),
            versions={str(key): str(value) for key, value in document["versions"].items()},
            vectors=str(document.get("vectors", "")),
            has_gradient=bool(document.get("has_gradient", False)),
            weights=weights_name(str(document.get("weights", ""))),
            partitioning=Partitioning.of_document(document["partitioning"])
            if "partitioning" in document
            else None,
        )
