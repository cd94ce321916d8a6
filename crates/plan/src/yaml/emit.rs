//! Serializes values of any type as YAML without an intermediate tree, because a thousand services have ten thousand
//! children.

use std::{
    fmt::{self, Write as _},
    ops::Range,
};

use serde::{
    Serialize, Serializer,
    ser::{self, Impossible},
};
use serde_json::Number;

use super::{
    order::natural,
    text::{Position, Writer, format_number},
};

/// A value that this YAML cannot represent: an enum with data, or a key that is not a string.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be written as YAML: {0}")]
pub struct YamlError(String);

impl ser::Error for YamlError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Writes a document. If it is an object, leaves out null and empty members as [`Omit`] says.
pub(super) fn document<T: Serialize + ?Sized>(value: &T, is_object: bool) -> Result<String, YamlError> {
    let mut emitter = Emitter::default();
    let omit = if is_object { Omit::Object } else { Omit::Nothing };
    value.serialize(Node { emitter: &mut emitter, at: At::Document, indent: 0, omit })?;
    Ok(emitter.writer.out)
}

#[derive(Default)]
struct Emitter {
    writer: Writer,
    /// The keys of the open mappings, one after the other.
    keys: String,
    /// The entries of the open mappings.
    entries: Vec<Entry>,
    /// The kind of the last value.
    last: Kind,
}

/// One entry of an open mapping.
#[derive(Clone)]
struct Entry {
    /// Where its key starts in the output.
    start: usize,
    /// The range of its key in the keys.
    key: Range<usize>,
}

/// The kind of a value, which decides whether its member is left out.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Null,
    Empty,
    Other,
}

/// Which members of a mapping are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Omit {
    Nothing,
    /// Null members, in an object.
    Object,
    /// Null and empty members, in metadata.
    Metadata,
}

/// What precedes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing.
    Document,
    /// The colon of a key.
    Member,
    /// The dash of an item.
    Item,
}

/// The place of a value. The line is finished once the value is written.
struct Node<'w> {
    emitter: &'w mut Emitter,
    at: At,
    indent: usize,
    omit: Omit,
}

// === impl Node ===

impl<'w> Node<'w> {
    fn scalar(self, kind: Kind, write: impl FnOnce(&mut Writer, usize)) {
        let writer = &mut self.emitter.writer;
        if self.at == At::Member {
            writer.put(' ');
        }
        write(writer, if self.at == At::Document { 0 } else { self.indent + 2 });
        writer.newline();
        self.emitter.last = kind;
    }

    fn plain(self, text: &str) {
        self.scalar(Kind::Other, |writer, _| writer.text(text));
    }

    /// Starts a sequence or mapping whose entries are at this indentation.
    fn collection(self, indent: usize) -> Collection<'w> {
        let before = self.emitter.writer.out.len();
        let Self { emitter, at, omit, .. } = self;
        Collection {
            before,
            key: emitter.keys.len(),
            entry: emitter.entries.len(),
            emitter,
            at,
            omit,
            indent,
            count: 0,
        }
    }

    fn sequence(self) -> Collection<'w> {
        let indent = if self.at == At::Item { self.indent + 2 } else { self.indent };
        self.collection(indent)
    }

    fn mapping(self) -> Collection<'w> {
        let indent = if self.at == At::Document { self.indent } else { self.indent + 2 };
        self.collection(indent)
    }
}

macro_rules! numbers {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, value: $type) -> Result<(), YamlError> {
            self.plain(&format_number(&Number::from(value)));
            Ok(())
        })*
    };
}

impl<'w> Serializer for Node<'w> {
    type Ok = ();
    type Error = YamlError;
    type SerializeSeq = Collection<'w>;
    type SerializeTuple = Collection<'w>;
    type SerializeTupleStruct = Collection<'w>;
    type SerializeTupleVariant = Impossible<(), YamlError>;
    type SerializeMap = Collection<'w>;
    type SerializeStruct = Collection<'w>;
    type SerializeStructVariant = Impossible<(), YamlError>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    }

    fn serialize_bool(self, value: bool) -> Result<(), YamlError> {
        self.plain(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), YamlError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), YamlError> {
        match Number::from_f64(value) {
            Some(number) => self.plain(&format_number(&number)),
            None => return self.serialize_unit(),
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), YamlError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), YamlError> {
        self.scalar(Kind::Other, |writer, indent| writer.string(text, indent, Position::Value));
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), YamlError> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), YamlError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), YamlError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), YamlError> {
        self.scalar(Kind::Null, |writer, _| writer.text("null"));
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), YamlError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), YamlError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), YamlError> {
        Err(with_content(name))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Collection<'w>, YamlError> {
        Ok(self.sequence())
    }

    fn serialize_tuple(self, _: usize) -> Result<Collection<'w>, YamlError> {
        Ok(self.sequence())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Collection<'w>, YamlError> {
        Ok(self.sequence())
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), YamlError>, YamlError> {
        Err(with_content(name))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Collection<'w>, YamlError> {
        Ok(self.mapping())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Collection<'w>, YamlError> {
        Ok(self.mapping())
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), YamlError>, YamlError> {
        Err(with_content(name))
    }
}

fn with_content(name: &str) -> YamlError {
    YamlError(format!("a variant of {name} that has content"))
}

/// A sequence or a mapping that is being written.
struct Collection<'w> {
    emitter: &'w mut Emitter,
    at: At,
    omit: Omit,
    /// The column of its entries.
    indent: usize,
    /// Entries so far.
    count: usize,
    /// The length of the output when the collection began,
    before: usize,
    /// the length of the keys,
    key: usize,
    /// and the number of entries.
    entry: usize,
}

// === impl Collection ===

impl Collection<'_> {
    /// Starts the line of an entry.
    fn open(&mut self) {
        let writer = &mut self.emitter.writer;
        if self.count > 0 {
            writer.spaces(self.indent);
        } else if self.at == At::Member && writer.out.len() == self.before {
            writer.break_to(self.indent);
        }
        self.count += 1;
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        self.open();
        self.emitter.writer.text("- ");
        value.serialize(Node {
            emitter: self.emitter,
            at: At::Item,
            indent: self.indent,
            omit: Omit::Nothing,
        })
    }

    /// Starts an entry whose key begins at `from` in the keys and is their last.
    fn key(&mut self, from: usize) {
        self.open();
        let Emitter { writer, keys, entries, .. } = &mut *self.emitter;
        entries.push(Entry { start: writer.out.len(), key: from..keys.len() });
        writer.string(&keys[from..], self.indent, Position::Key);
        writer.put(':');
    }

    fn member<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        let Some(entry) = self.emitter.entries.last().cloned() else {
            return Err(YamlError("a value without a key".to_owned()));
        };
        let omit = match self.omit {
            Omit::Object if &self.emitter.keys[entry.key.clone()] == "metadata" => Omit::Metadata,
            _ => Omit::Nothing,
        };
        value.serialize(Node { emitter: self.emitter, at: At::Member, indent: self.indent, omit })?;
        let says_nothing = match self.omit {
            Omit::Nothing => false,
            Omit::Object => self.emitter.last == Kind::Null,
            Omit::Metadata => self.emitter.last != Kind::Other,
        };
        if says_nothing {
            self.rewind(&entry);
        }
        Ok(())
    }

    /// Removes the last entry and its output.
    fn rewind(&mut self, entry: &Entry) {
        let Emitter { writer, keys, entries, .. } = &mut *self.emitter;
        self.count -= 1;
        if self.count == 0 {
            // The output before the first entry stays, for the next entry.
            writer.out.truncate(entry.start);
            writer.column = self.indent;
        } else {
            writer.out.truncate(entry.start - self.indent);
            writer.column = 0;
        }
        keys.truncate(entry.key.start);
        entries.pop();
    }

    /// Ends the collection. Writes `empty` if it has no entries.
    fn close(self, empty: &str) {
        let Self { emitter, at, indent, count, before, key, entry, .. } = self;
        if count > 0 {
            emitter.sort(entry, indent);
            emitter.last = Kind::Other;
        } else {
            let writer = &mut emitter.writer;
            // Removed entries may have left the beginning of a line.
            writer.out.truncate(before);
            if at == At::Member {
                writer.put(' ');
            }
            writer.text(empty);
            writer.newline();
            emitter.last = Kind::Empty;
        }
        emitter.keys.truncate(key);
        emitter.entries.truncate(entry);
    }
}

// === impl Emitter ===

impl Emitter {
    /// Sorts the entries of the mapping whose first entry is `first`. Usually the members of a type are already in order.
    fn sort(&mut self, first: usize, indent: usize) {
        let entries = &self.entries[first..];
        let key = |entry: &Entry| &self.keys[entry.key.clone()];
        if entries.is_sorted_by(|a, b| natural(key(a), key(b)).is_le()) {
            return;
        }
        let out = &mut self.writer.out;
        let ends = entries[1..].iter().map(|next| next.start - indent).chain([out.len()]);
        let mut lines: Vec<(&str, Range<usize>)> =
            entries.iter().zip(ends).map(|(entry, end)| (key(entry), entry.start..end)).collect();
        lines.sort_by(|(a, _), (b, _)| natural(a, b));
        let start = entries[0].start;
        let mut sorted = String::with_capacity(out.len() - start);
        for (position, (_, line)) in lines.into_iter().enumerate() {
            if position > 0 {
                sorted.extend(std::iter::repeat_n(' ', indent));
            }
            sorted.push_str(&out[line]);
        }
        out.truncate(start);
        out.push_str(&sorted);
    }
}

/// A key as text.
struct Key<'k, T: ?Sized>(&'k T);

impl<T: Serialize + ?Sized> fmt::Display for Key<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(f)
    }
}

macro_rules! sequences {
    ($($trait:ident: $item:ident),*) => {
        $(impl ser::$trait for Collection<'_> {
            type Ok = ();
            type Error = YamlError;

            fn $item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
                self.item(value)
            }

            fn end(self) -> Result<(), YamlError> {
                self.close("[]");
                Ok(())
            }
        })*
    };
}

sequences! {
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field
}

impl ser::SerializeMap for Collection<'_> {
    type Ok = ();
    type Error = YamlError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), YamlError> {
        let from = self.emitter.keys.len();
        write!(self.emitter.keys, "{}", Key(key))
            .map_err(|_| YamlError("a key that is neither text nor a number".to_owned()))?;
        self.key(from);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        self.member(value)
    }

    fn end(self) -> Result<(), YamlError> {
        self.close("{}");
        Ok(())
    }
}

impl ser::SerializeStruct for Collection<'_> {
    type Ok = ();
    type Error = YamlError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        let from = self.emitter.keys.len();
        self.emitter.keys.push_str(key);
        self.key(from);
        self.member(value)
    }

    fn end(self) -> Result<(), YamlError> {
        self.close("{}");
        Ok(())
    }
}
