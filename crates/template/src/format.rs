//! Go's fmt: `print`, `println` and `printf` for template values.

use std::fmt::Write as _;

use longboat_types::float::{exponent, shortest};
use serde_json::Value as Json;

use crate::{
    quote::{quote, quote_with},
    reflect::{Kind, Ty, Value},
};

/// The largest width of a field. Go refuses larger ones too.
const MAX_WIDTH: usize = 1_000_000;

/// The longest text that one call creates, in bytes. It is the default of `Limits`, and prevents that a short format with
/// wide fields fills the memory before the limit of the output is checked.
pub(crate) const MAX_TEXT: usize = 4 << 20;

/// The most digits after the decimal point of a float. An exact double has no more, so all further digits are zero.
const MAX_DIGITS: usize = 1_100;

/// The address that all pointers print. Real addresses would be meaningless.
const ADDRESS: &str = "0xc000000000";

/// `fmt.Sprint`: adds a space between two values if neither is a string.
pub(crate) fn print(values: &[Value<'_>]) -> String {
    let mut out = String::new();
    for (i, value) in values.iter().enumerate() {
        if i > 0 && value.kind() != Kind::Str && values[i - 1].kind() != Kind::Str {
            out.push(' ');
        }
        plain(&mut out, value, 0, false);
    }
    out
}

/// `fmt.Sprintln`: adds spaces between all values, and a newline at the end.
pub(crate) fn println(values: &[Value<'_>]) -> String {
    let mut out = String::new();
    spaced(&mut out, values, |out, value| plain(out, value, 0, false));
    out.push('\n');
    out
}

fn spaced<T>(out: &mut String, items: impl IntoIterator<Item = T>, write: impl Fn(&mut String, T)) {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write(out, item);
    }
}

/// Writes a value like `%v` (`%+v` if `names` is set) at a nesting depth.
fn plain(out: &mut String, value: &Value<'_>, depth: usize, names: bool) {
    match value.kind() {
        Kind::Invalid => out.push_str("<nil>"),
        Kind::Bool => out.push_str(if value.as_bool() { "true" } else { "false" }),
        Kind::Int => {
            let _ = write!(out, "{}", value.as_int());
        }
        Kind::Float => out.push_str(&shortest(value.as_float())),
        Kind::Str => out.push_str(value.as_str()),
        Kind::Slice => {
            let ty = value.element_type();
            out.push('[');
            spaced(out, value.elements(), |out, json| {
                plain(out, &Value::typed(ty, Some(json)), depth + 1, names);
            });
            out.push(']');
        }
        Kind::Map => {
            let ty = value.element_type();
            out.push_str("map[");
            spaced(out, value.entries(), |out, (key, json)| {
                out.push_str(key);
                out.push(':');
                plain(out, &Value::typed(ty, Some(json)), depth + 1, names);
            });
            out.push(']');
        }
        Kind::Ptr => match value {
            _ if value.is_nil() => out.push_str("<nil>"),
            Value::Typed(Ty::Ptr(inner @ (Ty::Quantity | Ty::IntOrString | Ty::Time | Ty::Url)), json) => {
                plain(out, &Value::typed(**inner, *json), depth, names);
            }
            Value::Typed(Ty::Ptr(inner @ (Ty::Struct(_) | Ty::Slice(..) | Ty::Map(..))), json)
                if depth == 0 =>
            {
                out.push('&');
                plain(out, &Value::typed(**inner, *json), depth + 1, names);
            }
            _ => out.push_str(ADDRESS),
        },
        Kind::Struct => structure(out, value, depth, names),
    }
}

fn structure(out: &mut String, value: &Value<'_>, depth: usize, names: bool) {
    match value {
        Value::Typed(Ty::Struct(s), json) => {
            out.push('{');
            spaced(out, s.fields(), |out, field| {
                if names {
                    out.push_str(field.go);
                    out.push(':');
                }
                let inner = if field.json.is_empty() { *json } else { json.and_then(|j| j.get(field.json)) };
                plain(out, &Value::typed(field.ty, inner), depth + 1, names);
            });
            out.push('}');
        }
        Value::Typed(ty, json) => match json {
            Some(Json::String(text)) => out.push_str(text),
            Some(other) => {
                let _ = write!(out, "{other}");
            }
            None if matches!(ty, Ty::Quantity | Ty::IntOrString) => out.push('0'),
            None if matches!(ty, Ty::Time) => out.push_str("0001-01-01 00:00:00 +0000 UTC"),
            None => {}
        },
        _ => {}
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags of a verb, any of which can be set")]
struct Spec {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// `fmt.Sprintf`.
///
/// # Errors
///
/// If the text would be longer than [`MAX_TEXT`]. Go has no such limit.
pub(crate) fn printf(format: &str, values: &[Value<'_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut args = values.iter();
    let mut chars = format.chars().peekable();
    let mut used = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if out.len() > MAX_TEXT {
            return Err(format!("output exceeds the limit of {MAX_TEXT} bytes"));
        }
        let mut spec = Spec::default();
        while let Some(&flag) = chars.peek() {
            match flag {
                '+' => spec.plus = true,
                '-' => spec.minus = true,
                '#' => spec.sharp = true,
                ' ' => spec.space = true,
                '0' => spec.zero = true,
                _ => break,
            }
            chars.next();
        }
        let mut star = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>, used: &mut usize| {
            if chars.next_if_eq(&'*').is_some() {
                *used += 1;
                return args.next().and_then(|v| usize::try_from(v.as_int()).ok());
            }
            let mut number = None;
            while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                number = Some(number.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit as usize));
            }
            number
        };
        spec.width = star(&mut chars, &mut used);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(star(&mut chars, &mut used).unwrap_or(0));
        }
        let Some(verb) = chars.next() else {
            out.push_str("%!(NOVERB)");
            break;
        };
        if spec.width.max(spec.precision).is_some_and(|w| w > MAX_WIDTH) {
            out.push_str("%!(BADWIDTH)");
            continue;
        }
        if verb == '%' {
            out.push('%');
            continue;
        }
        used += 1;
        match args.next() {
            Some(value) => formatted(&mut out, &spec, verb, value),
            None => {
                let _ = write!(out, "%!{verb}(MISSING)");
            }
        }
    }
    if used < values.len() {
        out.push_str("%!(EXTRA ");
        for (i, value) in values[used..].iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&value.type_name());
            out.push('=');
            plain(&mut out, value, 0, false);
        }
        out.push(')');
    }
    Ok(out)
}

fn formatted(out: &mut String, spec: &Spec, verb: char, value: &Value<'_>) {
    let mut text = String::new();
    let mut numeric = false;
    match (verb, value.kind()) {
        ('v', Kind::Str) if spec.sharp => text = quote(value.as_str()),
        ('v', _) => plain(&mut text, value, 0, spec.plus),
        ('T', _) => text = value.type_name(),
        ('t', Kind::Bool) => text = value.as_bool().to_string(),
        ('s', Kind::Str) => text = cut(value.as_str(), spec.precision),
        ('q', Kind::Str) => text = quote(&cut(value.as_str(), spec.precision)),
        ('x' | 'X', Kind::Str) => {
            for byte in value.as_str().bytes() {
                let _ = if verb == 'x' { write!(text, "{byte:02x}") } else { write!(text, "{byte:02X}") };
            }
        }
        ('d' | 'b' | 'o' | 'x' | 'X' | 'c' | 'q' | 'U', Kind::Int) => {
            numeric = !matches!(verb, 'c' | 'q' | 'U');
            text = integer(spec, verb, value.as_int());
        }
        ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Kind::Float) => {
            numeric = true;
            text = float(spec, verb, value.as_float());
        }
        ('s' | 'd', Kind::Slice | Kind::Map | Kind::Struct) => plain(&mut text, value, 0, false),
        ('s' | 'd' | 'q', Kind::Ptr) if !value.is_nil() => {
            let (inner, _) = value.clone().indirect();
            if matches!(inner.kind(), Kind::Struct) {
                plain(&mut text, value, 0, false);
            } else {
                let _ = write!(text, "%!{verb}({}={ADDRESS})", value.type_name());
            }
        }
        (_, Kind::Invalid) => {
            let _ = write!(text, "%!{verb}(<nil>)");
        }
        _ => {
            let _ = write!(text, "%!{verb}({}=", value.type_name());
            plain(&mut text, value, 0, false);
            text.push(')');
        }
    }
    pad(out, spec, numeric, &text);
}

fn cut(text: &str, precision: Option<usize>) -> String {
    precision.map_or_else(|| text.to_owned(), |n| text.chars().take(n).collect())
}

fn integer(spec: &Spec, verb: char, value: i64) -> String {
    let magnitude = value.unsigned_abs();
    let digits = match verb {
        'b' => format!("{magnitude:b}"),
        'o' => format!("{magnitude:o}"),
        'x' => format!("{magnitude:x}"),
        'X' => format!("{magnitude:X}"),
        'c' | 'q' | 'U' => {
            let c = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            return match verb {
                'c' => c.to_string(),
                'q' => quote_with(&c.to_string(), '\''),
                _ => format!("U+{value:04X}"),
            };
        }
        _ => magnitude.to_string(),
    };
    let prefix = match (spec.sharp, verb) {
        (true, 'x') => "0x",
        (true, 'X') => "0X",
        (true, 'o') => "0",
        (true, 'b') => "0b",
        _ => "",
    };
    let sign = match (value < 0, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    };
    // Rust's own padding is limited to 65,535.
    let zeros = "0".repeat(spec.precision.unwrap_or(0).saturating_sub(digits.len()));
    format!("{sign}{prefix}{zeros}{digits}")
}

fn float(spec: &Spec, verb: char, value: f64) -> String {
    let mut text = match (verb, spec.precision) {
        ('f' | 'F', precision) => {
            let digits = precision.unwrap_or(6);
            let zeros = "0".repeat(digits.saturating_sub(MAX_DIGITS));
            format!("{value:.*}{zeros}", digits.min(MAX_DIGITS))
        }
        ('e' | 'E', precision) => {
            let digits = precision.unwrap_or(6);
            let text = format!("{value:.*e}", digits.min(MAX_DIGITS));
            let zeros = "0".repeat(digits.saturating_sub(MAX_DIGITS));
            exponent(&text.replacen('e', &format!("{zeros}e"), 1))
        }
        (_, None) => shortest(value),
        (_, Some(precision)) => significant(value, precision.clamp(1, MAX_DIGITS)),
    };
    if verb.is_ascii_uppercase() {
        text = text.to_uppercase();
    }
    if value >= 0.0 && spec.plus {
        text.insert(0, '+');
    }
    text
}

/// Formats a float like `%.Ng`: N significant digits, without trailing zeros.
fn significant(value: f64, digits: usize) -> String {
    let scientific = format!("{value:.*e}", digits - 1);
    let power: i64 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    let limit = i64::try_from(digits).unwrap_or(i64::MAX);
    if power < -4 || power >= limit {
        let (mantissa, e) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return exponent(&format!("{}e{e}", trim(mantissa)));
    }
    let decimals = usize::try_from(limit - 1 - power).unwrap_or(0);
    trim(&format!("{value:.decimals$}"))
}

fn pad(out: &mut String, spec: &Spec, numeric: bool, text: &str) {
    let missing = spec.width.unwrap_or(0).saturating_sub(text.chars().count());
    if missing == 0 {
        out.push_str(text);
    } else if spec.minus {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if spec.zero && numeric {
        let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-', ' '])));
        out.push_str(sign);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(if spec.zero { '0' } else { ' ' }, missing));
        out.push_str(text);
    }
}
