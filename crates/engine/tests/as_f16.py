"""Makes a GGUF file with the numbers of another one as F16, for tests/engine/real_model.rs and oracle.py. It holds the same numbers as what
as_safetensors.py makes.

    python3 as_f16.py MODEL.gguf RESULT.gguf
"""

import pathlib
import sys

import gguf_files
import numpy

# What `general.file_type` says of a file whose matrices are F16.
MOSTLY_F16 = 1


def main(file, result):
    metadata, tensors = gguf_files.read(file)
    metadata["general.file_type"] = MOSTLY_F16
    halved = {}
    for name, numbers in tensors:
        rounded = numbers.astype(numpy.float16)
        # llama.cpp takes vectors as F32 only.
        content = ("F16", rounded) if len(rounded.shape) > 1 else ("F32", rounded.astype(numpy.float32))
        halved[name] = (content[0], rounded.shape, content[1])
    gguf_files.write(result, metadata, halved)


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
