//! The size of objects.

use serde_json::Value;

/// The largest object that is stored, in bytes of [`size`]. etcd refuses larger requests.
pub const MAX_OBJECT_BYTES: usize = 1536 * 1024;

/// Returns the length of a value as JSON. Escapes in texts do not count, because protobuf, in which built-in kinds are stored, has
/// none.
pub fn size(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(flag) => 5 - usize::from(*flag),
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 1 + items.iter().map(|item| size(item) + 1).sum::<usize>().max(1),
        Value::Object(map) => {
            1 + map.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>().max(1)
        }
    }
}

/// Returns why a value is too large to be stored, in the words of etcd.
pub fn too_large(value: &Value) -> Option<String> {
    let bytes = size(value);
    (bytes > MAX_OBJECT_BYTES).then(|| {
        format!(
            "etcdserver: request is too large: the object has at least {bytes} bytes, and at most {MAX_OBJECT_BYTES} can be stored"
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::size;

    #[test]
    fn the_size_of_a_value_is_its_length_as_json() {
        for value in
            [json!({}), json!([]), json!({"a": [1, -2.5, true, false, null], "bc": {"d": "e"}, "f": [[]]})]
        {
            assert_eq!(size(&value), value.to_string().len(), "{value}");
        }
        assert_eq!(size(&json!("\n")), 3);
    }
}
