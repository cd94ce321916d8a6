//! The controller has the rights that the table of kinds needs, and no further write rights.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;
use longboat_plan::{kinds, types};
use serde_json::Value;

/// Group and plural of a resource.
type Name = (String, String);
/// The verbs by resource.
type Rights = BTreeMap<Name, BTreeSet<String>>;

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 3] = ["create", "update", "delete"];

/// The rights that the controller needs for the objects that it plans and reads.
fn needed(is_cluster_scoped: bool) -> Rights {
    fn of<K: Resource<DynamicType = ()>>(verbs: &[&str]) -> (Name, BTreeSet<String>) {
        let name = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        (name, verbs.iter().map(|verb| (*verb).to_owned()).collect())
    }
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident ($($go_type:literal, $wave:ident)?)
            ($scope:ident, $($observed:tt)*);)*) => {
            [$((stringify!($scope), of::<types::$kind>(
                [&READ[..], each!(@written $($wave)?)].concat().as_slice(),
            )),)*]
        };
        (@written $wave:ident) => { &WRITE[..] };
        (@written) => { &[] };
    }
    let all = kinds!(all each).into_iter();
    all.filter(|(scope, _)| is_cluster_scoped || *scope != "cluster").map(|(_, rights)| rights).collect()
}

/// The rights that the roles in these files give for any object name.
fn allowed(files: &[&str]) -> Rights {
    let mut rights = Rights::new();
    for file in files {
        let path = format!("{}/../../deploy/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for document in longboat_manifest::parse(file, &text).unwrap() {
            let rules = document.object["rules"].as_array().cloned().unwrap_or_default();
            for rule in rules.iter().filter(|rule| rule["resourceNames"].is_null()) {
                let texts = |key: &str| {
                    let all = rule[key].as_array().into_iter().flatten().filter_map(Value::as_str);
                    all.map(str::to_owned).collect::<Vec<_>>()
                };
                for group in texts("apiGroups") {
                    for resource in texts("resources") {
                        rights.entry((group.clone(), resource)).or_default().extend(texts("verbs"));
                    }
                }
            }
        }
    }
    rights
}

#[test]
fn the_roles_of_an_installation_follow_from_the_table_of_kinds() {
    let installations = [
        (true, &["rbac/role.yaml", "rbac/secrets.yaml"][..]),
        (false, &["rbac-namespaced/watched/role.yaml"][..]),
    ];
    for (is_cluster_scoped, files) in installations {
        let (needed, allowed) = (needed(is_cluster_scoped), allowed(files));
        for (resource, verbs) in &needed {
            let has = allowed.get(resource).cloned().unwrap_or_default();
            assert!(verbs.is_subset(&has), "{files:?}: {resource:?} needs {verbs:?}, has {has:?}");
        }
        for (resource, verbs) in &allowed {
            // Pickers get a right to leases, and a right can only be given by somebody who has it.
            if verbs.contains("delete") && resource.1 != "leases" {
                assert!(needed.contains_key(resource), "{files:?}: nothing of {resource:?} is ever deleted");
            }
        }
    }
}
