//! Writes YAML byte for byte as the reference writes the picker's configuration, which is how kubectl prints too.
//!
//! The text is an argument of the picker's container, and pod specs must be equal. Another layout of the same configuration
//! would restart every picker when Longboat takes over a cluster. Hence the details: block style, keys in natural order (`s2`
//! before `s10`), sequences not indented below their key, plain scalars folded after column 80, double quotes for strings
//! that would read as another type, single quotes only if they are needed.

mod emit;
mod order;
mod text;

use serde::Serialize;
use serde_json::Value;

use emit::Omit;

/// Renders a JSON value as a YAML document that ends with a newline.
pub fn to_yaml(value: &Value) -> String {
    emit::document(value, Omit::Nothing)
}

/// Renders a Kubernetes object as a YAML document that ends with a newline. Leaves out null members, and in metadata also
/// empty members.
///
/// # Errors
/// For types that JSON cannot represent, which no Kubernetes object has.
pub fn object<T: Serialize>(object: &T) -> serde_json::Result<String> {
    Ok(emit::document(&serde_json::to_value(object)?, Omit::Object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{object, to_yaml};

    #[test]
    fn keys_sort_as_people_count_and_look_alikes_are_quoted() {
        let text = to_yaml(&json!({
            "s10": "0x1f", "s2": "1.0", "k": 1.5, "big": 1_234_567.5, "empty": "", "list": [], "map": {}, "dash": "-",
            "colon": "a: b", "lines": "one\ntwo\n", "day": "2026-01-01", "time": "1:30", "plain": "v0.10.0", "y": "y",
        }));
        assert_eq!(
            text,
            "big: 1.2345675e+06\ncolon: 'a: b'\ndash: '-'\nday: \"2026-01-01\"\nempty: \"\"\nk: 1.5\nlines: |\n  one\n  two\nlist: \
             []\nmap: {}\nplain: v0.10.0\ns2: \"1.0\"\ns10: \"0x1f\"\ntime: \"1:30\"\n\"y\": \"y\"\n"
        );
    }

    /// What kubectl 1.32 prints.
    #[test]
    fn scalars_are_written_as_go_yaml_writes_them() {
        let quoted = "1:7|1:5:9|+1:7|1:59.5_0|1_0:30|1_000|0x1f|-0X1F|0xffffffffffffffff|0o17|08|1e5|.5|1.|\
             18446744073709551616|2026-1-2|2026-01-02 01:02:03.5|2026-01-02  01:02:03|\
             2026-01-02t1:2:3.5+01:00|y|~";
        let plain = "_1|1:60|1:30.a|0xffffffffffffffffff|-0xffffffffffffffff|0b2|1e999|1.5.2|2026-13-45|\
             2026-02-30|2026-1-2T1:2:3|2026-01-02T25:00:00Z|<<|+|..";
        let numbers = [
            (1e6, "1000000"),
            (-0.0, "0"),
            (1.5e6, "1500000"),
            (1_234_567.5, "1.2345675e+06"),
            (1e21, "1e+21"),
        ];
        for (number, text) in numbers {
            assert_eq!(to_yaml(&json!(number)), format!("{text}\n"));
        }
        assert_eq!(to_yaml(&json!("é 😀")), "\"é \\U0001F600\"\n");
        for text in quoted.split('|') {
            assert_eq!(to_yaml(&json!(text)), format!("\"{text}\"\n"));
        }
        for text in plain.split('|') {
            assert_eq!(to_yaml(&json!(text)), format!("{text}\n"));
        }
    }

    #[test]
    fn keys_in_a_circle_are_all_printed() {
        // `2` comes before `12`, this before `1b`, and this before `2`. The sort of the standard library notices that only sometimes.
        let mut seed = 1_u32;
        let mut key = |_| {
            let mut letter = |_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b"ab1029.-_/A"[(seed >> 16) as usize % 11])
            };
            (0..7).map(&mut letter).collect::<String>()
        };
        let keys: std::collections::BTreeSet<String> = (0..400).map(&mut key).collect();
        let text = to_yaml(&keys.iter().map(|key| (key.clone(), json!(1))).collect());
        assert_eq!(text.lines().count(), keys.len());
        assert_eq!(text.lines().collect::<std::collections::BTreeSet<_>>().len(), keys.len());
    }

    #[test]
    fn sequences_stand_at_the_column_of_their_key_and_nest() {
        let text = to_yaml(&json!({"plugins": [{"type": "a", "parameters": {"x": [1, 2]}}, {"type": "b"}]}));
        assert_eq!(text, "plugins:\n- parameters:\n    x:\n    - 1\n    - 2\n  type: a\n- type: b\n");
    }

    #[test]
    fn a_long_plain_scalar_folds_at_the_first_space_past_column_eighty() {
        let text =
            to_yaml(&json!({"long": format!("{} {} {}", "a".repeat(60), "b".repeat(30), "c".repeat(5))}));
        assert_eq!(text, format!("long: {} {}\n  {}\n", "a".repeat(60), "b".repeat(30), "c".repeat(5)));
    }

    #[test]
    fn of_an_object_members_that_say_nothing_are_left_out() {
        let input = json!({
            "a": null, "b": {}, "metadata": { "annotations": {}, "finalizers": [], "labels": { "x": "" }, "name": null },
            "spec": { "empty": {}, "none": null }, "status": null,
        });
        assert_eq!(
            object(&input).unwrap(),
            "b: {}\nmetadata:\n  labels:\n    x: \"\"\nspec:\n  empty: {}\n  none: null\n"
        );
        let bare = json!({ "metadata": { "name": null }, "a": null });
        assert_eq!(object(&bare).unwrap(), "metadata: {}\n");
        assert_eq!(object(&json!({ "a": null })).unwrap(), "{}\n");
    }

    #[test]
    fn members_that_a_type_has_in_another_order_are_sorted() {
        #[derive(serde::Serialize)]
        struct Inner {
            s10: Vec<(u8, &'static str)>,
            s2: Option<&'static str>,
            a: std::collections::BTreeMap<&'static str, i32>,
        }
        let input = [Inner { s10: vec![(1, "one"), (2, "two")], s2: None, a: [("z", 1), ("b", 2)].into() }];
        assert_eq!(
            object(&input).unwrap(),
            "- a:\n    b: 2\n    z: 1\n  s2: null\n  s10:\n  - - 1\n    - one\n  - - 2\n    - two\n"
        );
    }
}
