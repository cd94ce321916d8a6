//! Reads payloads of engines. They are outside bytes, so what they may hold is limited.

use super::{Batch, BatchError, Event, ExtraKey, GPU, Stored};
use crate::msgpack::{Kind, MsgpackError, Reader};

/// The most blocks in one payload. It is more than any engine sends at once, and limits the memory for a payload.
const MAX_BLOCKS: usize = 1 << 17;
/// The most tokens in one payload.
const MAX_TOKENS: usize = 1 << 22;
/// The most events in one payload.
const MAX_EVENTS: usize = 1 << 16;

/// The number of events, blocks and tokens of a payload that may still be read.
struct DecodeBudget {
    events: usize,
    blocks: usize,
    tokens: usize,
}

impl Batch {
    /// Decodes a payload. The batch and each event are either an array, whose first items have fixed meanings, or a map.
    pub fn decode(payload: &[u8]) -> Result<Self, BatchError> {
        let mut reader = Reader::new(payload);
        let mut batch = Self::default();
        let mut room = DecodeBudget { events: MAX_EVENTS, blocks: MAX_BLOCKS, tokens: MAX_TOKENS };
        let names = ["ts", "events", "data_parallel_rank"];
        let mut has_events = false;
        fields(&mut reader, &names, 0, |field, reader| {
            match field {
                0 => batch.timestamp = reader.number()?,
                1 => {
                    has_events = true;
                    for _ in 0..counted(reader, &mut room.events, "events")? {
                        match event(reader, &mut room)? {
                            Some(event) => batch.events.push(event),
                            None => batch.unknown += 1,
                        }
                    }
                }
                _ => batch.rank = optional(reader, Reader::integer)?,
            }
            Ok(())
        })?;
        if has_events { Ok(batch) } else { Err(BatchError::Missing { event: "the batch", field: "events" }) }
    }
}

/// Reads an array or a map. `read` gets the index of the field in `names` and must read its value; other fields are skipped.
/// In an array, the field `names[i]` is at position `first + i`.
fn fields<'a>(
    reader: &mut Reader<'a>,
    names: &[&str],
    first: usize,
    mut read: impl FnMut(usize, &mut Reader<'a>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    if reader.kind() == Some(Kind::Map) {
        for _ in 0..reader.map()? {
            let field = names.iter().position(|name| reader.clone().text() == Ok(name));
            reader.skip()?;
            match field {
                Some(field) => read(field, reader)?,
                None => drop(reader.skip()?),
            }
        }
        return Ok(());
    }
    for place in 0..reader.array()? {
        match place.checked_sub(first).filter(|field| *field < names.len()) {
            Some(field) => read(field, reader)?,
            None => drop(reader.skip()?),
        }
    }
    Ok(())
}

/// Returns the kind of the next event.
fn tag<'a>(reader: &Reader<'a>) -> Result<&'a str, BatchError> {
    let mut reader = reader.clone();
    if reader.kind() == Some(Kind::Map) {
        for _ in 0..reader.map()? {
            if reader.clone().text() == Ok("type") {
                reader.skip()?;
                return Ok(reader.text()?);
            }
            reader.skip()?;
            reader.skip()?;
        }
        return Err(BatchError::Missing { event: "an event", field: "type" });
    }
    reader.array()?;
    Ok(reader.text()?)
}

/// Reads an event. Returns `None` for an event of an unknown kind.
fn event(reader: &mut Reader<'_>, room: &mut DecodeBudget) -> Result<Option<Event>, BatchError> {
    match tag(reader)? {
        "BlockStored" => stored(reader, room).map(Some),
        "BlockRemoved" => {
            let (mut hashes, mut place) = (None, None);
            fields(reader, &["block_hashes", "medium"], 1, |field, reader| {
                match field {
                    0 => hashes = Some(hash_list(reader, room)?),
                    _ => place = optional(reader, Reader::text)?.map(str::to_ascii_lowercase),
                }
                Ok(())
            })?;
            let hashes =
                hashes.ok_or(BatchError::Missing { event: "BlockRemoved", field: "block_hashes" })?;
            Ok(Some(Event::Removed { hashes, medium: place.unwrap_or_else(|| GPU.to_owned()) }))
        }
        "AllBlocksCleared" => {
            reader.skip()?;
            Ok(Some(Event::Cleared))
        }
        _ => {
            reader.skip()?;
            Ok(None)
        }
    }
}

fn stored(reader: &mut Reader<'_>, room: &mut DecodeBudget) -> Result<Event, BatchError> {
    const NAMES: [&str; 8] = [
        "block_hashes",
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "medium",
        "lora_name",
        "extra_keys",
    ];
    let mut stored = Stored { medium: GPU.to_owned(), ..Stored::default() };
    let mut seen = [false; NAMES.len()];
    fields(reader, &NAMES, 1, |field, reader| {
        seen[field] = true;
        match field {
            0 => stored.hashes = hash_list(reader, room)?,
            1 => stored.parent = if reader.nil() { None } else { Some(hash(reader)?) },
            2 => {
                let count = counted(reader, &mut room.tokens, "tokens")?;
                stored.tokens = Vec::with_capacity(count);
                for _ in 0..count {
                    let error = reader.error("a token of 32 bits");
                    stored.tokens.push(u32::try_from(reader.integer()?).map_err(|_| error)?);
                }
            }
            3 => stored.block_size = usize::try_from(reader.integer()?).unwrap_or(usize::MAX),
            4 => stored.lora_id = optional(reader, Reader::integer)?,
            5 => {
                if let Some(medium) = optional(reader, Reader::text)? {
                    stored.medium = medium.to_ascii_lowercase();
                }
            }
            6 => stored.lora_name = optional(reader, Reader::text)?.map(str::to_owned),
            _ => stored.extra = extra_keys(reader, room)?,
        }
        Ok(())
    })?;
    // The fields after the block size were added in later releases.
    if let Some((field, _)) = NAMES.iter().zip(seen).take(4).find(|(_, seen)| !seen) {
        return Err(BatchError::Missing { event: "BlockStored", field });
    }
    // vLLM repeats the adapter's name as the first key of each block. Here the start of the chain has it, for requests as for events.
    if let Some(name) = &stored.lora_name {
        for keys in &mut stored.extra {
            if keys.first() == Some(&ExtraKey::Text(name.clone())) {
                keys.remove(0);
            }
        }
    }
    Ok(Event::Stored(Box::new(stored)))
}

fn optional<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, MsgpackError>,
) -> Result<Option<T>, MsgpackError> {
    if reader.nil() { Ok(None) } else { read(reader).map(Some) }
}

fn hash_list(reader: &mut Reader<'_>, room: &mut DecodeBudget) -> Result<Vec<u64>, BatchError> {
    let count = counted(reader, &mut room.blocks, "blocks")?;
    let mut hashes = Vec::with_capacity(count);
    for _ in 0..count {
        hashes.push(hash(reader)?);
    }
    Ok(hashes)
}

fn hash(reader: &mut Reader<'_>) -> Result<u64, MsgpackError> {
    if reader.kind() != Some(Kind::Bytes) {
        return reader.integer();
    }
    // The last 64 bits, as vLLM itself shortens hashes with VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES, so both forms are equal.
    let bytes = reader.bytes()?;
    let last = &bytes[bytes.len().saturating_sub(8)..];
    Ok(last.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn extra_keys(reader: &mut Reader<'_>, room: &mut DecodeBudget) -> Result<Vec<Vec<ExtraKey>>, BatchError> {
    if reader.nil() {
        return Ok(Vec::new());
    }
    let count = counted(reader, &mut room.blocks, "blocks")?;
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let mut keys = Vec::new();
        if !reader.nil() {
            for _ in 0..counted(reader, &mut room.blocks, "blocks")? {
                keys.push(match reader.clone().text() {
                    Ok(text) => {
                        reader.skip()?;
                        ExtraKey::Text(text.to_owned())
                    }
                    Err(_) => ExtraKey::Other(reader.skip()?.to_vec()),
                });
            }
        }
        blocks.push(keys);
    }
    Ok(blocks)
}

/// Reads the start of a list, and counts its length.
fn counted(reader: &mut Reader<'_>, room: &mut usize, what: &'static str) -> Result<usize, BatchError> {
    let limit = match what {
        "blocks" => MAX_BLOCKS,
        "tokens" => MAX_TOKENS,
        _ => MAX_EVENTS,
    };
    let count = reader.array()?;
    *room = room.checked_sub(count).ok_or(BatchError::TooMany { what, limit })?;
    Ok(count)
}
