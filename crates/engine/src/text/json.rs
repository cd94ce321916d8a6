//! The filter `tojson` of chat templates as Hugging Face defines it: JSON as Python writes it. The filter of the library would escape it
//! for HTML.

use std::io::{self, Write};

use minijinja::{Error, ErrorKind, State, Value, value::Kwargs};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::conversation::{BoundedText, charge, charge_text};

/// Writes JSON like Python.
struct PythonFormatter {
    /// Spaces for each level, if each value has a line of its own.
    indent: Option<usize>,
    level: usize,
    /// Whether the innermost list or object has no values yet.
    is_empty: bool,
    /// The texts after a value and after a key.
    separators: (String, String),
    escapes_letters: bool,
}

/// A value as JSON.
#[expect(clippy::needless_pass_by_value, reason = "the type of a filter")]
pub(super) fn filter(state: &State<'_, '_>, value: &Value, options: Kwargs) -> Result<Value, Error> {
    charge_text(state, value)?;
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let separators = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => {
            let reason = "`separators` of `tojson` must be two strings";
            return Err(Error::new(ErrorKind::InvalidOperation, reason));
        }
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let escapes_letters = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or_default();
    let is_sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or_default();
    options.assert_all_used()?;
    let formatter = PythonFormatter { indent, level: 0, is_empty: true, separators, escapes_letters };
    let mut text = Serializer::with_formatter(BoundedText::default(), formatter);
    let written = if is_sorted {
        serde_json::to_value(value).and_then(|mut value| {
            value.sort_all_objects();
            value.serialize(&mut text)
        })
    } else {
        value.serialize(&mut text)
    };
    written.map_err(|error| {
        let kind = if error.is_io() { ErrorKind::OutOfFuel } else { ErrorKind::InvalidOperation };
        Error::new(kind, error.to_string())
    })?;
    let text = text.into_inner().0;
    charge(state, text.len())?;
    let text = String::from_utf8(text)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    Ok(Value::from_safe_string(text))
}

// === impl PythonFormatter ===

impl PythonFormatter {
    fn open<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: u8) -> io::Result<()> {
        self.level += 1;
        self.is_empty = true;
        writer.write_all(&[bracket])
    }

    fn close<W: Write + ?Sized>(&mut self, writer: &mut W, bracket: u8) -> io::Result<()> {
        self.level -= 1;
        if !self.is_empty {
            self.begin_line(writer)?;
        }
        self.is_empty = false;
        writer.write_all(&[bracket])
    }

    fn begin_value<W: Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if !is_first {
            writer.write_all(self.separators.0.as_bytes())?;
        }
        self.is_empty = false;
        self.begin_line(writer)
    }

    fn begin_line<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        // One by one, because the writer has a limit.
        (0..indent.saturating_mul(self.level)).try_for_each(|_| writer.write_all(b" "))
    }
}

impl Formatter for PythonFormatter {
    fn begin_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b'[')
    }

    fn end_array<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b']')
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.begin_value(writer, is_first)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b'{')
    }

    fn end_object<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b'}')
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.begin_value(writer, is_first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.separators.1.as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.escapes_letters {
            return writer.write_all(fragment.as_bytes());
        }
        for unit in fragment.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => writer.write_all(&[byte])?,
                _ => write!(writer, "\\u{unit:04x}")?,
            }
        }
        Ok(())
    }
}
