//! Writes payloads like vLLM.

use super::{Batch, Event, ExtraKey, Stored};
use crate::msgpack::Writer;

impl Batch {
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
                write_or_nil(writer, stored.parent.as_ref(), |writer, parent| writer.integer(*parent));
                field(writer, "token_ids");
                integers(writer, stored.tokens.iter().map(|&token| u64::from(token)));
                field(writer, "block_size");
                writer.integer(stored.block_size as u64);
                field(writer, "lora_id");
                write_or_nil(writer, stored.lora_id.as_ref(), |writer, id| writer.integer(*id));
                field(writer, "medium");
                writer.text(&stored.medium.to_uppercase());
                field(writer, "lora_name");
                write_or_nil(writer, stored.lora_name.as_ref(), |writer, name| writer.text(name));
                field(writer, "extra_keys");
                write_extra_keys(writer, stored);
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

fn write_or_nil<T>(writer: &mut Writer, value: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
    match value {
        Some(value) => write(writer, value),
        None => writer.nil(),
    }
}

pub(super) fn integers(writer: &mut Writer, values: impl ExactSizeIterator<Item = u64>) {
    writer.array(values.len());
    values.for_each(|value| writer.integer(value));
}

fn write_extra_keys(writer: &mut Writer, stored: &Stored) {
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
