//! Converts numbers to the form in which Go prints them: a float without a fraction has no decimal point.

use serde_json::Value;

/// Up to this limit, floats represent all integers exactly.
pub(crate) const EXACT: f64 = 9_007_199_254_740_992.0;

/// Converts all floats without a fraction in `value` to integers.
pub(crate) fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(float) = number.as_f64()
                && float.fract() == 0.0
                && float.abs() <= EXACT
                && !(float == 0.0 && float.is_sign_negative())
            {
                #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is in range")]
                let integer = float as i64;
                *value = Value::from(integer);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(map) => map.values_mut().for_each(make_whole),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::make_whole;

    #[test]
    fn whole_floats_become_integers_and_others_stay() {
        let mut value = json!({"a": [2.0, 2.5, 1e3, -3.0, 1e300], "b": 4});
        make_whole(&mut value);
        assert_eq!(value, json!({"a": [2, 2.5, 1000, -3, 1e300], "b": 4}));
    }
}
