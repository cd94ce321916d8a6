//! Decodes and encodes in one step: computes what is left of a JSON tree after a Go struct held it.

use longboat_api::uri::Uri;
use longboat_patch::gofmt::go_type;
use longboat_quantity::{PATTERN_MISMATCH, Quantity};
use longboat_template::reflect::{Field, Struct, Ty};
use longboat_types::go::Omit;
use serde_json::{Map, Number, Value};

/// A value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The message of Go's decoder: `json: cannot unmarshal string into Go struct field …`.
    pub message: String,
    /// The path of the value: `spec.template.containers[0].name`.
    pub field: String,
    /// The type of the value: `string`.
    pub found: &'static str,
    /// The expected type, in JSON's words: `an integer`.
    pub expected: &'static str,
}

/// Returns what Go would encode after decoding `json` into a value of type `ty`. Unknown keys disappear, and so do absent and
/// zero values that Go omits. Fields that Go always writes appear.
///
/// # Errors
///
/// The message of Go's decoder for the first value that does not fit its type.
pub(crate) fn normalise(ty: Ty, json: Value) -> Result<Value, String> {
    decode(ty, json).map_err(|mismatch| mismatch.message)
}

/// Like [`normalise`]. The error also says where the value is.
pub(crate) fn decode(ty: Ty, json: Value) -> Result<Value, TypeMismatch> {
    let mut decoder = Decoder { path: Vec::new(), holder: None };
    decoder.value(ty, json)
}

struct Decoder {
    /// The keys on the path to the current field, including the names of embedded structs.
    path: Vec<&'static str>,
    /// The name of the struct with the current field.
    holder: Option<&'static str>,
}

impl Decoder {
    fn mismatch(&self, found: &str, ty: Ty) -> String {
        match self.holder {
            None => format!("json: cannot unmarshal {found} into Go value of type {ty}"),
            Some(holder) => {
                let holder = holder.rsplit('.').next().unwrap_or(holder);
                format!(
                    "json: cannot unmarshal {found} into Go struct field {holder}.{} of type {ty}",
                    self.path.join(".")
                )
            }
        }
    }

    /// The encoding of a present value; `null` becomes the zero value.
    fn value(&mut self, ty: Ty, json: Value) -> Result<Value, TypeMismatch> {
        if json.is_null() {
            return Ok(zero(ty));
        }
        match (ty, json) {
            (Ty::Ptr(inner), json) => self.value(*inner, json),
            (Ty::Struct(s), Value::Object(map)) => self.object(s, map),
            (Ty::Slice(_, inner), Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items.map(|(at, item)| self.value(*inner, item).map_err(|error| error.within(&at))).collect()
            }
            (Ty::Map(_, inner), Value::Object(map)) => {
                let entries = map.into_iter().map(|(key, value)| {
                    let value = self.value(*inner, value).map_err(|error| error.within(&key))?;
                    Ok((key, value))
                });
                entries.collect::<Result<Map<_, _>, _>>().map(Value::Object)
            }
            (ty, json) => {
                let found = kind(&json);
                self.scalar(ty, json).map_err(|message| TypeMismatch {
                    message,
                    field: String::new(),
                    found,
                    expected: expected(ty),
                })
            }
        }
    }

    /// Decodes what has no parts, or does not have the parts of its type.
    fn scalar(&self, ty: Ty, json: Value) -> Result<Value, String> {
        match (ty, json) {
            (Ty::Bool(_), json @ Value::Bool(_))
            | (Ty::Str(_) | Ty::IntOrString | Ty::Time, json @ Value::String(_))
            | (Ty::Float(_), json @ Value::Number(_))
            | (Ty::Raw | Ty::Any, json) => Ok(json),
            (Ty::Int(name), json) => self.integer(name, json),
            (Ty::IntOrString, json) => self.integer("int32", json),
            (Ty::Quantity, Value::String(text)) => canonical(&text),
            (Ty::Quantity, Value::Number(number)) => canonical(&number.to_string()),
            (Ty::Quantity, _) => Err(PATTERN_MISMATCH.to_owned()),
            (Ty::Url, Value::String(text)) => {
                Uri::parse(&text).map(|uri| Value::String(uri.to_string())).map_err(|e| e.to_string())
            }
            (Ty::Url | Ty::Time, other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", go_type(&other)))
            }
            (_, other) => Err(self.mismatch(go_type(&other), ty)),
        }
    }

    fn integer(&self, name: &'static str, json: Value) -> Result<Value, String> {
        let Value::Number(number) = &json else {
            return Err(self.mismatch(go_type(&json), Ty::Int(name)));
        };
        let fits = match (number.as_i64(), name) {
            (None, _) => false,
            (Some(_), "int64" | "int") => true,
            (Some(value), "uint16") => u16::try_from(value).is_ok(),
            (Some(value), "int16") => i16::try_from(value).is_ok(),
            (Some(value), "int8") => i8::try_from(value).is_ok(),
            // The named types in the tables, such as `v1.PortNumber`, are all int32.
            (Some(value), _) => i32::try_from(value).is_ok(),
        };
        if fits { Ok(json) } else { Err(self.mismatch(&format!("number {number}"), Ty::Int(name))) }
    }

    fn object(&mut self, s: &'static Struct, mut map: Map<String, Value>) -> Result<Value, TypeMismatch> {
        let outer = self.holder.replace(s.name);
        let mut out = Map::new();
        self.fields(s, &mut map, &mut out)?;
        self.holder = outer;
        Ok(Value::Object(out))
    }

    fn fields(
        &mut self,
        s: &'static Struct,
        map: &mut Map<String, Value>,
        out: &mut Map<String, Value>,
    ) -> Result<(), TypeMismatch> {
        for field in s.fields() {
            if field.json.is_empty() {
                if let Ty::Struct(inner) = field.ty {
                    self.path.push(field.go);
                    self.fields(inner, map, out)?;
                    self.path.pop();
                }
                continue;
            }
            let present = map.remove(field.json).filter(|v| !v.is_null());
            if present.is_none() && absent_is_omitted(field) {
                continue;
            }
            self.path.push(field.json);
            let value = match present {
                Some(json) => self.value(field.ty, json).map_err(|error| error.below(field.json))?,
                None => zero(field.ty),
            };
            self.path.pop();
            if !is_omitted(field, &value) {
                out.insert(field.json.to_owned(), value);
            }
        }
        Ok(())
    }
}

// === impl TypeMismatch ===

impl TypeMismatch {
    /// Adds the element of a list or map in which the value is to its path.
    fn within(self, element: &dyn std::fmt::Display) -> Self {
        Self { field: format!("[{element}]{}", self.joined()), ..self }
    }

    /// Adds the field in which the value is to its path.
    fn below(self, name: &str) -> Self {
        Self { field: format!("{name}{}", self.joined()), ..self }
    }

    /// The path, as it follows an outer part.
    fn joined(&self) -> String {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        format!("{dot}{}", self.field)
    }
}

fn kind(json: &Value) -> &'static str {
    match json {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn expected(ty: Ty) -> &'static str {
    match ty {
        Ty::Struct(_) | Ty::Map(..) => "an object",
        Ty::Slice(..) => "a list",
        Ty::Bool(_) => "true or false",
        Ty::Int(_) => "an integer",
        Ty::Float(_) => "a number",
        Ty::Quantity => "a quantity such as 500m or 4Gi",
        Ty::IntOrString => "an integer or a string",
        Ty::Url => "a URL",
        Ty::Time => "a time",
        Ty::Str(_) | Ty::Ptr(_) | Ty::Raw | Ty::Any => "a string",
    }
}

/// Whether a field that is not set is left out. Go never omits structs, nor the scalars that it stores in structs.
fn absent_is_omitted(field: &Field) -> bool {
    match field.omit {
        Omit::Never => false,
        Omit::Zero => true,
        Omit::Empty => {
            !matches!(field.ty, Ty::Struct(_) | Ty::Quantity | Ty::Url | Ty::IntOrString | Ty::Raw)
        }
    }
}

fn is_omitted(field: &Field, value: &Value) -> bool {
    match (field.omit, field.ty) {
        (Omit::Never, _) => false,
        // A pointer that is set is never empty, whatever its target is.
        (_, Ty::Ptr(_)) => value.is_null(),
        (Omit::Zero, ty @ Ty::Struct(_)) => *value == zero(ty),
        _ => match value {
            Value::Null => true,
            Value::Bool(b) => !b && matches!(field.ty, Ty::Bool(_)),
            Value::String(s) => s.is_empty() && matches!(field.ty, Ty::Str(_)),
            Value::Number(n) => matches!(field.ty, Ty::Int(_) | Ty::Float(_)) && n.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty() && matches!(field.ty, Ty::Slice(..)),
            Value::Object(map) => map.is_empty() && matches!(field.ty, Ty::Map(..)),
        },
    }
}

/// The encoding of a type's zero value.
fn zero(ty: Ty) -> Value {
    match ty {
        Ty::Ptr(_) | Ty::Slice(..) | Ty::Map(..) | Ty::Raw | Ty::Any | Ty::Time => Value::Null,
        Ty::Bool(_) => Value::Bool(false),
        Ty::Str(_) | Ty::Url => Value::String(String::new()),
        Ty::Int(_) | Ty::Float(_) | Ty::IntOrString => Value::Number(Number::from(0)),
        Ty::Quantity => Value::String("0".to_owned()),
        Ty::Struct(s) => {
            let mut out = Map::new();
            zero_fields(s, &mut out);
            Value::Object(out)
        }
    }
}

fn zero_fields(s: &'static Struct, out: &mut Map<String, Value>) {
    for field in s.fields() {
        match field.ty {
            Ty::Struct(inner) if field.json.is_empty() => zero_fields(inner, out),
            _ if absent_is_omitted(field) => {}
            ty => {
                let value = zero(ty);
                if !is_omitted(field, &value) {
                    out.insert(field.json.to_owned(), value);
                }
            }
        }
    }
}

/// A quantity in its canonical notation.
fn canonical(text: &str) -> Result<Value, String> {
    match Quantity::parse(text.trim()) {
        Some(quantity) => Ok(Value::String(quantity.to_string())),
        None => Err(PATTERN_MISMATCH.to_owned()),
    }
}
