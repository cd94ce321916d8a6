//! When the taints of the node evict its pods.
//!
//! Kubernetes: pkg/controller/tainteviction. Most taints do not say when they were added, so the time until the eviction begins
//! when a taint is first seen.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use longboat_key::Key;

use super::fit;

/// Since when taints would evict pods.
#[derive(Default)]
pub(super) struct Tainted(HashMap<Key, Sightings>);

struct Sightings {
    pod_uid: Option<String>,
    /// By key and value of the taint.
    since: HashMap<(String, Option<String>), Timestamp>,
}

impl Tainted {
    /// Returns when the pod is to be evicted, and forgets the taints that the node no longer has.
    pub(super) fn due(&mut self, key: &Key, pod: &Pod, node: &Node, now: Timestamp) -> Option<Timestamp> {
        let known = self.0.remove(key).filter(|known| known.pod_uid == pod.uid());
        let mut due = None;
        let mut since = HashMap::new();
        for (taint, patience) in fit::evicting_taints(pod, node) {
            let id = (taint.key.clone(), taint.value.clone());
            let seen = known.as_ref().and_then(|known| known.since.get(&id)).copied().unwrap_or(now);
            since.insert(id, seen);
            let start = taint.time_added.as_ref().map_or(seen, |time| time.0);
            let end = match patience {
                0 => now,
                _ => start.checked_add(SignedDuration::from_secs(patience)).unwrap_or(Timestamp::MAX),
            };
            due = Some(due.map_or(end, |due: Timestamp| due.min(end)));
        }
        if !since.is_empty() {
            self.0.insert(key.clone(), Sightings { pod_uid: pod.uid(), since });
        }
        due
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn patience_begins_when_a_taint_is_first_seen_and_anew_when_it_comes_back() {
        let pod = |uid: &str| -> Pod {
            let tolerations = json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]);
            let spec = json!({"containers": [], "tolerations": tolerations});
            serde_json::from_value(json!({"metadata": {"name": "p", "uid": uid}, "spec": spec})).unwrap()
        };
        let node = |taints: Value| -> Node {
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let tainted = node(json!([{"key": "k", "effect": "NoExecute"}]));
        let dated = json!([{"key": "k", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:10Z"}]);
        let key = Key::new(Namespace("ns"), Name("p"));
        let mut seen = Tainted::default();
        let mut due = |uid, node: &Node, now| seen.due(&key, &pod(uid), node, at(now));
        assert_eq!(due("a", &tainted, 100), Some(at(130)));
        assert_eq!(due("a", &tainted, 120), Some(at(130)));
        assert_eq!(due("a", &node(json!([])), 125), None);
        assert_eq!(due("a", &tainted, 140), Some(at(170)));
        assert_eq!(due("b", &tainted, 150), Some(at(180)), "another pod of this name");
        assert_eq!(due("b", &node(dated), 160), Some(at(40)));
    }
}
