//! What the containers of a pod need together, which is compared with the resources of the pod as a whole.

use std::collections::{BTreeMap, btree_map::Entry};

use serde_json::{Map, Value};

use crate::quantity::{self, Quantity};

/// Amounts by the name of their resource.
pub(crate) type Amounts<'s> = BTreeMap<&'s str, Quantity>;

/// Returns the sum over the containers of a pod's spec. `kind` is `requests` or `limits`.
///
/// Sidecars are the init containers that are restarted. They run beside the containers, and beside the init containers after
/// them. Other init containers run one after the other, before the containers.
pub(crate) fn aggregate<'s>(spec: &'s Map<String, Value>, kind: &str) -> Amounts<'s> {
    let (mut sum, mut sidecars, mut most) = (Amounts::new(), Amounts::new(), Amounts::new());
    let containers = |list: &str| spec.get(list).and_then(Value::as_array).into_iter().flatten();
    for (name, amount) in containers("containers").flat_map(|container| amounts(container, kind)) {
        add(&mut sum, name, amount);
    }
    for container in containers("initContainers") {
        // A resource that this container does not name was compared when a sidecar named it.
        for (name, mut amount) in amounts(container, kind) {
            if container["restartPolicy"] == "Always" {
                add(&mut sum, name, amount);
                amount = add(&mut sidecars, name, amount);
            } else if let Some(beside) = sidecars.get(name) {
                amount = total(amount, *beside);
            }
            raise(&mut most, name, amount);
        }
    }
    for (name, amount) in most {
        raise(&mut sum, name, amount);
    }
    sum
}

fn amounts<'s>(container: &'s Value, kind: &str) -> impl Iterator<Item = (&'s str, Quantity)> {
    let all = container["resources"][kind].as_object().into_iter().flatten();
    all.filter_map(|(name, amount)| Some((name.as_str(), quantity::of(amount)?)))
}

fn add<'s>(sum: &mut Amounts<'s>, name: &'s str, amount: Quantity) -> Quantity {
    let so_far = sum.entry(name).or_default();
    *so_far = total(*so_far, amount);
    *so_far
}

/// The sum. As in Kubernetes, an amount of zero has no say in its notation. A sum that does not fit is not compared.
fn total(one: Quantity, other: Quantity) -> Quantity {
    if one.nano() == 0 { other } else { (one + other).unwrap_or(one) }
}

fn raise<'s>(amounts: &mut Amounts<'s>, name: &'s str, amount: Quantity) {
    match amounts.entry(name) {
        Entry::Occupied(known) if known.get().nano() >= amount.nano() => {}
        entry => *entry.insert_entry(amount).get_mut() = amount,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sidecars_add_up_and_other_init_containers_run_one_after_the_other() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let of = |containers: Value, init: Value| {
            let spec = json!({"containers": containers, "initContainers": init});
            aggregate(spec.as_object().unwrap(), "requests").get("cpu").map(Quantity::to_string)
        };
        let two = || json!([container("500m"), container("600m")]);
        assert_eq!(of(two(), json!([])).as_deref(), Some("1100m"));
        assert_eq!(of(two(), json!([container("1"), container("1050m")])).as_deref(), Some("1100m"));
        assert_eq!(of(two(), json!([container("4"), sidecar("1")])).as_deref(), Some("4"));
        assert_eq!(of(two(), json!([sidecar("1"), container("4")])).as_deref(), Some("5"));
        assert_eq!(of(two(), json!([sidecar("1"), sidecar("2")])).as_deref(), Some("4100m"));
        assert_eq!(of(json!([{}]), json!([])), None);
    }
}
