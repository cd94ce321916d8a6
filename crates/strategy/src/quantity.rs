//! The canonical form of the resource quantities in built-in kinds.

pub(crate) use longboat_quantity::Quantity;
use serde_json::Value;

/// Writes a quantity in its canonical form. Leaves alone what is not a quantity.
pub(super) fn canonicalise(value: &mut Value) {
    rewrite(value, |quantity| quantity);
}

/// Rounds a quantity up to a thousandth, as kube-apiserver does in lists of resources.
pub(super) fn round_to_milli(value: &mut Value) {
    rewrite(value, Quantity::rounded_to_milli);
}

/// Reads a quantity, which may be a text or a number.
pub(super) fn of(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

fn rewrite(value: &mut Value, change: impl Fn(Quantity) -> Quantity) {
    if let Some(quantity) = of(value) {
        *value = Value::String(change(quantity).to_string());
    }
}
