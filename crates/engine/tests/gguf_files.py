"""GGUF files for tests: reading them, writing small ones, and what the numbers of each format are, by the layout of its blocks."""

import struct

import numpy

# Of each format: its number in files, the numbers of a block, and its bytes.
FORMATS = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
}
NAMES = {number: name for name, (number, _, _) in FORMATS.items()}
KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def halves(blocks, at):
    """Two bytes of each block as a number."""
    return blocks[:, at : at + 2].copy().view(numpy.float16).astype(numpy.float32)


def nibbles(data):
    """The low halves of the bytes, then the high ones."""
    return numpy.concatenate([data & 15, data >> 4], -1)


def bits(data, width):
    """The parts of bytes, the lowest of all bytes first."""
    return numpy.concatenate([(data >> shift) & ((1 << width) - 1) for shift in range(0, 8, width)], -1)


def fifth(blocks, at):
    """The fifth bits of 32 numbers."""
    return (blocks[:, at : at + 4].copy().view("<u4") >> numpy.arange(32, dtype=numpy.uint32)) & 1


def sixes(data):
    """Eight scales and eight least values of six bits each, in twelve bytes."""
    low, high, rest = data[:, :4], data[:, 4:8], data[:, 8:]
    scales = numpy.concatenate([low & 63, (rest & 15) | (low >> 6 << 4)], -1)
    leasts = numpy.concatenate([high & 63, (rest >> 4) | (high >> 6 << 4)], -1)
    return scales.astype(numpy.float32), leasts.astype(numpy.float32)


def numbers_of(name, data, shape):
    """What the bytes of a tensor are as numbers."""
    if name in ("F32", "F16"):
        return data.view(numpy.float32 if name == "F32" else numpy.float16).astype(numpy.float32).reshape(shape)
    blocks = data.reshape(-1, FORMATS[name][2])
    signed = numpy.int32
    if name == "Q4_0":
        found = halves(blocks, 0) * (nibbles(blocks[:, 2:]).astype(signed) - 8)
    elif name == "Q4_1":
        found = halves(blocks, 0) * nibbles(blocks[:, 4:]) + halves(blocks, 2)
    elif name == "Q5_0":
        found = halves(blocks, 0) * ((nibbles(blocks[:, 6:]) | fifth(blocks, 2) << 4).astype(signed) - 16)
    elif name == "Q5_1":
        found = halves(blocks, 0) * (nibbles(blocks[:, 8:]) | fifth(blocks, 4) << 4) + halves(blocks, 2)
    elif name == "Q8_0":
        found = halves(blocks, 0) * blocks[:, 2:].view(numpy.int8)
    elif name == "Q2_K":
        scales = blocks[:, :16]
        parts = bits(blocks[:, 16:80].reshape(-1, 2, 32), 2).reshape(-1, 16, 16)
        found = (halves(blocks, 80) * (scales & 15))[..., None] * parts - (halves(blocks, 82) * (scales >> 4))[..., None]
    elif name == "Q3_K":
        low, high, top = blocks[:, 96:100], blocks[:, 100:104], blocks[:, 104:108]
        scales = numpy.concatenate([low & 15, high & 15, low >> 4, high >> 4], -1) | bits(top, 2) << 4
        parts = bits(blocks[:, 32:96].reshape(-1, 2, 32), 2).reshape(-1, 256).astype(signed)
        masks = bits(blocks[:, :32], 1)
        parts = (parts - 4 * (1 - masks.astype(signed))).reshape(-1, 16, 16)
        found = (halves(blocks, 108) * (scales.astype(signed) - 32))[..., None] * parts
    elif name in ("Q4_K", "Q5_K"):
        scales, leasts = sixes(blocks[:, 4:16])
        start = 16 if name == "Q4_K" else 48
        parts = nibbles(blocks[:, start:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
        if name == "Q5_K":
            parts = parts | bits(blocks[:, 16:48], 1).reshape(-1, 8, 32) << 4
        found = (halves(blocks, 0) * scales)[..., None] * parts - (halves(blocks, 2) * leasts)[..., None]
    elif name == "Q6_K":
        low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 256)
        high = bits(blocks[:, 128:192].reshape(-1, 2, 32), 2).reshape(-1, 256)
        parts = ((low | high << 4).astype(signed) - 32).reshape(-1, 16, 16)
        found = (halves(blocks, 208) * blocks[:, 192:208].view(numpy.int8))[..., None] * parts
    return numpy.asarray(found, numpy.float32).reshape(shape)


def random_bytes(name, shape, random, spread):
    """The bytes of a tensor of random numbers of about this spread: any bytes are numbers, if their scales are."""
    count, (_, numbers, size) = int(numpy.prod(shape)), FORMATS[name]
    if name in ("F32", "F16"):
        return random.normal(0, spread, count).astype(numpy.float32 if name == "F32" else numpy.float16).view(numpy.uint8)
    blocks = random.integers(0, 256, (count // numbers, size), numpy.uint8)
    places = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}.get(name, [0])
    for at in places:
        blocks[:, at : at + 2] = numpy.array([1], numpy.float16).view(numpy.uint8)
    if name in ("Q4_1", "Q5_1"):
        # Least values that leave the numbers around zero.
        steps = 16 if name == "Q4_1" else 32
        scale = spread / (steps / 12**0.5)
        blocks[:, 0:2] = numpy.array([scale], numpy.float16).view(numpy.uint8)
        blocks[:, 2:4] = numpy.array([-scale * (steps - 1) / 2], numpy.float16).view(numpy.uint8)
        return blocks.reshape(-1)
    scale = spread / numbers_of(name, blocks.reshape(-1), (-1,)).std()
    for at in places:
        blocks[:, at : at + 2] = numpy.array([scale], numpy.float16).view(numpy.uint8)
    return blocks.reshape(-1)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def value_of(value):
    """A value of the metadata, with its kind before it."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write(path, metadata, tensors):
    """Writes metadata and tensors, which are triples of a format's name, a shape and bytes."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    header += b"".join(text(key) + value_of(value) for key, value in metadata.items())
    data, at = [], 0
    for name, (kind, shape, content) in tensors.items():
        header += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        header += struct.pack("<IQ", FORMATS[kind][0], at)
        part = content.tobytes()
        data += [part, b"\0" * (-len(part) % 32)]
        at += len(part) + len(data[-1])
    path.write_bytes(header + b"\0" * (-len(header) % 32) + b"".join(data))


def read(path):
    """The metadata, and the tensors as numbers, one after another."""
    data = path.read_bytes()
    at = 8

    def take(form):
        nonlocal at
        found = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return found

    def take_text():
        nonlocal at
        (length,) = take("Q")
        at += length
        return data[at - length : at].decode()

    def take_value(kind):
        if kind == 8:
            return take_text()
        if kind == 9:
            kind, count = take("IQ")
            return [take_value(kind) for _ in range(count)]
        return take(KINDS[kind])[0]

    tensor_count, count = take("QQ")
    metadata = {}
    for _ in range(count):
        key = take_text()
        metadata[key] = take_value(take("I")[0])
    places = []
    for _ in range(tensor_count):
        name = take_text()
        shape = take(f"{take('I')[0]}Q")[::-1]
        places.append((name, shape, *take("IQ")))
    start = -(-at // 32) * 32

    def tensors():
        for name, shape, kind, offset in places:
            _, numbers, size = FORMATS[NAMES[kind]]
            length = int(numpy.prod(shape)) // numbers * size
            bytes_of = numpy.frombuffer(data, numpy.uint8, length, start + offset)
            yield name, numbers_of(NAMES[kind], bytes_of, shape)

    return metadata, tensors()


def halves_from_neighbours(matrix, heads):
    """The rows of queries or keys, whose pairs are neighbours in files of Llama models, as other files have them."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
