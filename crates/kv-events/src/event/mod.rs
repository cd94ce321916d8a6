//! The events of an engine's prefix cache.

use crate::msgpack::{Kind, MsgpackError, Reader, Writer};

/// The most blocks in one payload. It is more than any engine sends at once, and limits the memory for a payload.
const MAX_BLOCKS: usize = 1 << 17;
/// The most tokens in one payload.
const MAX_TOKENS: usize = 1 << 22;
/// The most events in one payload.
const MAX_EVENTS: usize = 1 << 16;

/// A payload: events in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Seconds since 1970, by the engine's clock.
    pub timestamp: f64,
    /// The events.
    pub events: Vec<Event>,
    /// The data-parallel rank of the events, if there are several.
    pub rank: Option<u64>,
    /// The number of events of unknown kinds.
    pub unknown: usize,
}

/// A change of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Blocks are now in the cache.
    Stored(Box<Stored>),
    /// Blocks are no longer in the cache.
    Removed {
        /// The engine's own hashes of the blocks.
        hashes: Vec<u64>,
        /// The medium in lower case; `gpu` if the engine does not name it.
        medium: String,
    },
    /// The cache is empty.
    Cleared,
}

/// Stored blocks with consecutive tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The engine's own hash of each block. If a hash is a byte string, its last eight bytes count.
    pub hashes: Vec<u64>,
    /// The hash of the block before the first one; `None` at the start of a prompt.
    pub parent: Option<u64>,
    /// The tokens of all blocks together.
    pub tokens: Vec<u32>,
    /// The number of tokens per block.
    pub block_size: usize,
    /// The adapter's number, for engines that do not send its name.
    pub lora_id: Option<u64>,
    /// The adapter's name.
    pub lora_name: Option<String>,
    /// The medium in lower case; `gpu` if the engine does not name it.
    pub medium: String,
    /// For each block, the keys that distinguish it from other blocks with the same tokens: cache salt, images. Empty if the
    /// engine sends none. The adapter's name is not included.
    pub extra: Vec<Vec<ExtraKey>>,
}

/// A key that distinguishes a block from other blocks with the same tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtraKey {
    /// A text: a cache salt, or the hash of an image.
    Text(String),
    /// Any other value in its encoded form.
    Other(Vec<u8>),
}

/// Why a payload cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It is not msgpack, or has another structure.
    #[error("malformed KV event: {0}")]
    Malformed(#[from] MsgpackError),
    /// A field is missing.
    #[error("malformed KV event: {event} has no {field}")]
    Missing {
        /// The kind of the event.
        event: &'static str,
        /// The missing field.
        field: &'static str,
    },
    /// A limit is exceeded.
    #[error("a KV event payload holds more than {limit} {what}")]
    TooMany {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// How many blocks and tokens of a payload may still be read.
struct Room {
    blocks: usize,
    tokens: usize,
}

// === impl Batch ===

impl Batch {
    /// Decodes a payload. The batch and each event are either an array, whose first items have fixed meanings, or a map.
    pub fn decode(payload: &[u8]) -> Result<Self, BatchError> {
        let mut reader = Reader::new(payload);
        let mut batch = Self::default();
        let mut room = Room { blocks: MAX_BLOCKS, tokens: MAX_TOKENS };
        let names = ["ts", "events", "data_parallel_rank"];
        let mut has_events = false;
        fields(&mut reader, &names, 0, |field, reader| {
            match field {
                0 => batch.timestamp = reader.number()?,
                1 => {
                    has_events = true;
                    let count = reader.array()?;
                    within("events", count, MAX_EVENTS)?;
                    for _ in 0..count {
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

    /// Encodes the batch like vLLM: in arrays, or with each event as a map if `maps` is set.
    pub fn encode(&self, maps: bool) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.array(if self.rank.is_some() { 3 } else { 2 });
        writer.float(self.timestamp);
        writer.array(self.events.len());
        for event in &self.events {
            event.encode(&mut writer, maps);
        }
        if let Some(rank) = self.rank {
            writer.integer(rank);
        }
        writer.bytes
    }
}

// === impl Event ===

impl Event {
    fn encode(&self, writer: &mut Writer, maps: bool) {
        let start = |writer: &mut Writer, name: &str, fields: usize| {
            if maps {
                writer.map(fields + 1);
                writer.text("type");
            } else {
                writer.array(fields + 1);
            }
            writer.text(name);
        };
        let field = |writer: &mut Writer, name: &str| {
            if maps {
                writer.text(name);
            }
        };
        match self {
            Self::Stored(stored) => {
                start(writer, "BlockStored", 8);
                field(writer, "block_hashes");
                integers(writer, stored.hashes.iter().copied());
                field(writer, "parent_block_hash");
                or_nil(writer, stored.parent.as_ref(), |writer, parent| writer.integer(*parent));
                field(writer, "token_ids");
                integers(writer, stored.tokens.iter().map(|&token| u64::from(token)));
                field(writer, "block_size");
                writer.integer(stored.block_size as u64);
                field(writer, "lora_id");
                or_nil(writer, stored.lora_id.as_ref(), |writer, id| writer.integer(*id));
                field(writer, "medium");
                writer.text(&stored.medium.to_uppercase());
                field(writer, "lora_name");
                or_nil(writer, stored.lora_name.as_ref(), |writer, name| writer.text(name));
                field(writer, "extra_keys");
                extra(writer, stored);
            }
            Self::Removed { hashes, medium } => {
                start(writer, "BlockRemoved", 2);
                field(writer, "block_hashes");
                integers(writer, hashes.iter().copied());
                field(writer, "medium");
                writer.text(&medium.to_uppercase());
            }
            Self::Cleared => start(writer, "AllBlocksCleared", 0),
        }
    }
}

fn or_nil<T>(writer: &mut Writer, value: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
    match value {
        Some(value) => write(writer, value),
        None => writer.nil(),
    }
}

fn integers(writer: &mut Writer, values: impl ExactSizeIterator<Item = u64>) {
    writer.array(values.len());
    values.for_each(|value| writer.integer(value));
}

fn extra(writer: &mut Writer, stored: &Stored) {
    if stored.extra.iter().all(Vec::is_empty) {
        return writer.nil();
    }
    writer.array(stored.extra.len());
    for keys in &stored.extra {
        let name = stored.lora_name.iter();
        if keys.is_empty() && name.len() == 0 {
            writer.nil();
            continue;
        }
        writer.array(keys.len() + name.len());
        name.for_each(|name| writer.text(name));
        for key in keys {
            match key {
                ExtraKey::Text(text) => writer.text(text),
                ExtraKey::Other(bytes) => writer.bytes.extend_from_slice(bytes),
            }
        }
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
fn event(reader: &mut Reader<'_>, room: &mut Room) -> Result<Option<Event>, BatchError> {
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

/// The medium if the engine does not name one.
const GPU: &str = "gpu";

fn stored(reader: &mut Reader<'_>, room: &mut Room) -> Result<Event, BatchError> {
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
                let count = reader.array()?;
                within("tokens", count, room.tokens)?;
                room.tokens -= count;
                stored.tokens = Vec::with_capacity(count);
                for _ in 0..count {
                    let before = reader.clone();
                    let token = u32::try_from(reader.integer()?).ok();
                    stored.tokens.push(token.ok_or_else(|| not_a_token(&before))?);
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
    if let Some(name) = &stored.lora_name {
        for keys in &mut stored.extra {
            if keys.first() == Some(&ExtraKey::Text(name.clone())) {
                keys.remove(0);
            }
        }
    }
    Ok(Event::Stored(Box::new(stored)))
}

fn not_a_token(reader: &Reader<'_>) -> MsgpackError {
    // The reader's error has the position of the number.
    reader.clone().text().err().map_or(MsgpackError { expected: "a token", at: 0 }, |error| MsgpackError {
        expected: "a token of 32 bits",
        ..error
    })
}

fn optional<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, MsgpackError>,
) -> Result<Option<T>, MsgpackError> {
    if reader.nil() { Ok(None) } else { read(reader).map(Some) }
}

fn hash_list(reader: &mut Reader<'_>, room: &mut Room) -> Result<Vec<u64>, BatchError> {
    let count = reader.array()?;
    within("blocks", count, room.blocks)?;
    room.blocks -= count;
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
    let bytes = reader.bytes()?;
    let last = &bytes[bytes.len().saturating_sub(8)..];
    Ok(last.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn extra_keys(reader: &mut Reader<'_>, room: &mut Room) -> Result<Vec<Vec<ExtraKey>>, BatchError> {
    if reader.nil() {
        return Ok(Vec::new());
    }
    let count = reader.array()?;
    within("blocks", count, room.blocks)?;
    room.blocks -= count;
    let mut blocks = Vec::with_capacity(count);
    for _ in 0..count {
        let mut keys = Vec::new();
        if !reader.nil() {
            let count = reader.array()?;
            within("blocks", count, room.blocks)?;
            room.blocks -= count;
            for _ in 0..count {
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

fn within(what: &'static str, count: usize, room: usize) -> Result<(), BatchError> {
    let limit = match what {
        "blocks" => MAX_BLOCKS,
        "tokens" => MAX_TOKENS,
        _ => MAX_EVENTS,
    };
    if count > room { Err(BatchError::TooMany { what, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_as_they_were_written() {
        let stored = Stored {
            hashes: vec![1, u64::MAX],
            parent: Some(300),
            tokens: (0..32).map(|token| token * 5000).collect(),
            block_size: 16,
            lora_name: Some("adapter".into()),
            lora_id: Some(3),
            medium: "cpu".into(),
            extra: vec![vec![ExtraKey::Text("salt".into()), ExtraKey::Other(vec![0x92, 1, 2])], vec![]],
        };
        let events = vec![
            Event::Stored(Box::new(stored)),
            Event::Removed { hashes: vec![1], medium: "gpu".into() },
            Event::Cleared,
        ];
        let batch = Batch { timestamp: 1.5, events, rank: Some(3), unknown: 0 };
        for maps in [false, true] {
            assert_eq!(Batch::decode(&batch.encode(maps)).as_ref(), Ok(&batch));
        }
    }

    #[test]
    fn a_payload_that_is_cut_anywhere_is_refused() {
        let events = vec![Event::Stored(Box::new(Stored {
            hashes: vec![1],
            tokens: vec![70_000; 4],
            block_size: 4,
            medium: "gpu".into(),
            ..Stored::default()
        }))];
        let whole = Batch { events, ..Batch::default() }.encode(false);
        for length in 0..whole.len() {
            assert!(Batch::decode(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn short_events_of_old_releases_and_unknown_ones_are_read() {
        // [1.0, [["BlockStored", [7], nil, [1, 2], 2, nil], ["Other", {}], ["BlockRemoved", [<9 bytes>]]]]
        let mut writer = Writer::default();
        writer.array(2);
        writer.float(1.0);
        writer.array(3);
        writer.array(6);
        writer.text("BlockStored");
        integers(&mut writer, [7].into_iter());
        writer.nil();
        integers(&mut writer, [1, 2].into_iter());
        writer.integer(2);
        writer.nil();
        writer.array(2);
        writer.text("Other");
        writer.map(0);
        writer.array(2);
        writer.text("BlockRemoved");
        writer.array(1);
        writer.bytes.extend([0xc4, 9, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        let batch = Batch::decode(&writer.bytes).unwrap();
        assert_eq!(batch.unknown, 1);
        assert_eq!(batch.events[1], Event::Removed { hashes: vec![7], medium: "gpu".into() });
        let Event::Stored(stored) = &batch.events[0] else { panic!("{batch:?}") };
        assert_eq!(
            (stored.tokens.as_slice(), stored.parent, stored.medium.as_str()),
            (&[1, 2][..], None, "gpu")
        );
    }

    #[test]
    fn lengths_that_the_payload_cannot_hold_allocate_nothing() {
        let error = Batch::decode(&[0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
        assert_eq!(error.to_string(), "malformed KV event: expected an array at byte 2");
    }
}
