//! Which methods Go's types have, so that one that is not in the tables is refused by name and not as a field that is
//! unknown.

use std::{collections::HashMap, sync::LazyLock};

use crate::reflect::Ty;

static METHODS: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let mut families: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut types = HashMap::new();
    for line in include_str!("go.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let Some(first) = words.next() else { continue };
        if let Some(family) = first.strip_prefix('@') {
            families.insert(family, words.collect());
            continue;
        }
        let named = words.next().unwrap_or_default();
        let mut methods: Vec<&str> = words.collect();
        for (family, names) in &families {
            if named.contains(family) {
                methods.extend(names);
            }
        }
        types.insert(first, methods);
    }
    types
});

/// Names of the methods of a Go type, those of its pointers too; none where it has none.
pub fn go_methods(type_name: &str) -> &'static [&'static str] {
    METHODS.get(type_name).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a value of this type, or one that is embedded in it, has a method of this name in Go.
pub(crate) fn has(ty: Ty, name: &str) -> bool {
    match ty {
        Ty::Ptr(inner) => has(*inner, name),
        Ty::Struct(of) => {
            go_methods(of.name).contains(&name)
                || of.fields().iter().any(|field| field.embedded && has(field.ty, name))
        }
        other => go_methods(&other.to_string()).contains(&name),
    }
}
