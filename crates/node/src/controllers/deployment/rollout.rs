//! Computes the next number of replicas of each ReplicaSet of a Deployment. Pure functions.
//!
//! Kubernetes: pkg/controller/deployment/{rolling,sync}.go and util/deployment_util.go.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::ResourceExt;

use super::view::{self, DESIRED, MAX, Settings, available, replicas};

/// The next size of a ReplicaSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resize {
    pub(super) name: String,
    pub(super) to: i32,
}

impl Resize {
    pub(super) fn new(set: &ReplicaSet, to: i32) -> Self {
        Self { name: set.name_any(), to }
    }
}

fn total<'s>(sets: impl IntoIterator<Item = &'s ReplicaSet>) -> i32 {
    sets.into_iter().map(replicas).sum()
}

/// Returns the size with which the ReplicaSet of the current template is created.
pub(super) fn initial_size(settings: &Settings, old: &[ReplicaSet]) -> i32 {
    if settings.recreate {
        return settings.replicas;
    }
    let room = settings.replicas + settings.max_surge - total(old);
    room.clamp(0, settings.replicas)
}

/// Returns the next size of the ReplicaSet with the current template, if its size changes.
pub(super) fn new_size(settings: &Settings, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> Vec<Resize> {
    let Some(new) = new else { return Vec::new() };
    let have = replicas(new);
    let to = if have >= settings.replicas {
        settings.replicas
    } else {
        let room = settings.replicas + settings.max_surge - total(old) - have;
        have + room.clamp(0, settings.replicas - have)
    };
    if to == have { Vec::new() } else { vec![Resize::new(new, to)] }
}

/// Returns the next sizes of the other ReplicaSets. Unhealthy replicas are removed first, then as many healthy ones as the
/// new replicas make up for.
pub(super) fn old_sizes(settings: &Settings, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> Vec<Resize> {
    if total(old) == 0 {
        return Vec::new();
    }
    let Some(new) = new else { return Vec::new() };
    let least = settings.replicas - settings.max_unavailable;
    let new_unavailable = replicas(new) - available(new);
    let most_down = total(old) + replicas(new) - least - new_unavailable;
    if most_down <= 0 {
        return Vec::new();
    }
    let mut sizes: Vec<i32> = old.iter().map(replicas).collect();
    let mut cleaned = 0;
    for (size, set) in sizes.iter_mut().zip(old) {
        let broken = (*size - available(set)).max(0).min(most_down - cleaned);
        *size -= broken;
        cleaned += broken;
    }
    let working: i32 = old.iter().map(available).sum::<i32>() + available(new);
    let mut spare = (working - least).max(0);
    for size in &mut sizes {
        let down = spare.min(*size);
        *size -= down;
        spare -= down;
    }
    let changed = old.iter().zip(sizes).filter(|(set, size)| replicas(set) != *size);
    changed.map(|(set, size)| Resize::new(set, size)).collect()
}

/// Whether the number of replicas has changed since the ReplicaSets were last resized.
pub(super) fn is_scaling<'s>(settings: &Settings, sets: impl Iterator<Item = &'s ReplicaSet>) -> bool {
    let mut active = sets.filter(|set| replicas(set) > 0);
    active
        .any(|set| view::number(set, DESIRED).is_some_and(|desired| desired != i64::from(settings.replicas)))
}

/// Returns the sizes after a change of the number of replicas. During a rollout all ReplicaSets grow or shrink in
/// proportion, so that a stuck rollout does not get all of the new pods.
pub(super) fn proportional(settings: &Settings, new: Option<&ReplicaSet>, old: &[ReplicaSet]) -> Vec<Resize> {
    let active: Vec<&ReplicaSet> = new.into_iter().chain(old).filter(|set| replicas(set) > 0).collect();
    if active.len() <= 1 {
        let target = active.first().copied().or(new).or(old.last());
        return target
            .filter(|set| replicas(set) != settings.replicas || is_stale(settings, set))
            .map(|set| Resize::new(set, settings.replicas))
            .into_iter()
            .collect();
    }
    let is_saturated = new.is_some_and(|new| {
        replicas(new) == settings.replicas
            && view::number(new, DESIRED) == Some(i64::from(settings.replicas))
            && available(new) == settings.replicas
    });
    if is_saturated {
        return old.iter().filter(|set| replicas(set) > 0).map(|set| Resize::new(set, 0)).collect();
    }
    if settings.recreate {
        return Vec::new();
    }
    let allowed = if settings.replicas > 0 { settings.replicas + settings.max_surge } else { 0 };
    let add = allowed - total(active.iter().copied());
    let mut sorted = active;
    // Larger sets come first. Among sets of the same size, growth prefers newer sets and shrinking prefers older ones.
    if add > 0 {
        sorted
            .sort_by_key(|set| (-replicas(set), std::cmp::Reverse(set.metadata.creation_timestamp.clone())));
    } else {
        sorted.sort_by_key(|set| (-replicas(set), set.metadata.creation_timestamp.clone()));
    }
    let mut added = 0;
    let mut sizes: Vec<i32> = sorted
        .iter()
        .map(|set| {
            let share = share(settings, set, allowed, add, added);
            added += share;
            replicas(set) + share
        })
        .collect();
    if let Some(first) = sizes.first_mut() {
        *first = (*first + add - added).max(0);
    }
    let changed =
        sorted.iter().zip(sizes).filter(|(set, size)| replicas(set) != *size || is_stale(settings, set));
    changed.map(|(set, size)| Resize::new(set, size)).collect()
}

/// Whether the set's annotation still has the previous number of replicas.
fn is_stale(settings: &Settings, set: &ReplicaSet) -> bool {
    replicas(set) > 0
        && view::number(set, DESIRED).is_some_and(|desired| desired != i64::from(settings.replicas))
}

/// Returns how many of the replicas to add (or to remove, if negative) this ReplicaSet gets.
fn share(settings: &Settings, set: &ReplicaSet, allowed: i32, add: i32, added: i32) -> i32 {
    let have = replicas(set);
    if have == 0 || add == added {
        return 0;
    }
    let wanted = if settings.replicas == 0 {
        -have
    } else {
        let status = || set.status.as_ref().map_or(0, |status| i64::from(status.replicas));
        let before = view::number(set, MAX).filter(|max| *max > 0).unwrap_or_else(status).max(1);
        // Rounds to the nearest integer, halves up.
        let scaled = (2 * i64::from(have) * i64::from(allowed) + before) / (2 * before);
        i32::try_from(scaled).unwrap_or(i32::MAX) - have
    };
    if add > 0 { wanted.min(add - added) } else { wanted.max(add - added) }
}

/// Returns the names of old ReplicaSets beyond the history limit: those with the lowest revisions, if they run no pods.
pub(super) fn beyond_history_limit(old: &[ReplicaSet], keep: usize) -> Vec<String> {
    let mut idle: Vec<&ReplicaSet> = old
        .iter()
        .filter(|set| {
            let running = set.status.as_ref().map_or(0, |status| status.replicas);
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            replicas(set) == 0
                && running == 0
                && observed >= set.metadata.generation
                && set.metadata.deletion_timestamp.is_none()
        })
        .collect();
    idle.sort_by_key(|set| view::revision(set));
    let extra = old.len().saturating_sub(keep).min(idle.len());
    idle.into_iter().take(extra).map(ResourceExt::name_any).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(name: &str, replicas: i32, available: i32) -> ReplicaSet {
        annotated(name, replicas, available, &json!({}))
    }

    fn annotated(name: &str, replicas: i32, available: i32, annotations: &serde_json::Value) -> ReplicaSet {
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations},
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "availableReplicas": available}}))
        .unwrap()
    }

    fn settings(replicas: i32, max_surge: i32, max_unavailable: i32) -> Settings {
        Settings {
            replicas,
            recreate: false,
            max_surge,
            max_unavailable,
            progress_deadline: Some(600),
            paused: false,
        }
    }

    fn sizes(resizes: Vec<Resize>) -> Vec<(String, i32)> {
        resizes.into_iter().map(|resize| (resize.name, resize.to)).collect()
    }

    #[test]
    fn more_replicas_than_a_machine_can_run_overflow_nothing() {
        let spec = json!({"replicas": i32::MAX, "strategy": {"rollingUpdate": {"maxSurge": i32::MAX}}});
        let deployment = serde_json::from_value(json!({"spec": spec})).unwrap();
        let settings = Settings::of(&deployment);
        let size = initial_size(&settings, &[]);
        assert_eq!(size, settings.replicas);
        // Kubernetes would surge with as many again.
        assert_eq!(
            sizes(new_size(&settings, Some(&set("new", 0, 0)), &[set("old", size, size)])),
            [("new".to_owned(), size)]
        );
    }

    #[test]
    fn the_new_set_grows_as_far_as_the_surge_allows() {
        let to = |new: i32, old: i32| {
            sizes(new_size(&settings(4, 1, 1), Some(&set("new", new, 0)), &[set("old", old, old)]))
        };
        assert_eq!(to(0, 4), [("new".to_owned(), 1)]);
        assert_eq!(to(1, 4), []);
        assert_eq!(to(1, 3), [("new".to_owned(), 2)]);
        assert_eq!(to(3, 0), [("new".to_owned(), 4)]);
        assert_eq!(to(6, 0), [("new".to_owned(), 4)]);
        assert_eq!(initial_size(&settings(3, 1, 0), &[]), 3);
        assert_eq!(initial_size(&settings(3, 1, 0), &[set("old", 3, 3)]), 1);
    }

    #[test]
    fn old_sets_shrink_only_as_far_as_availability_allows() {
        let to = |new: (i32, i32), old: (i32, i32), settings: &Settings| {
            sizes(old_sizes(settings, Some(&set("new", new.0, new.1)), &[set("old", old.0, old.1)]))
        };
        let careful = settings(3, 1, 0);
        assert_eq!(to((1, 0), (3, 3), &careful), [], "the new pod is not available yet");
        assert_eq!(to((1, 1), (3, 3), &careful), [("old".to_owned(), 2)]);
        assert_eq!(to((1, 0), (3, 3), &settings(3, 1, 1)), [("old".to_owned(), 2)]);
        assert_eq!(
            to((1, 0), (3, 0), &settings(3, 1, 1)),
            [("old".to_owned(), 2)],
            "a pod that does not work counts for none"
        );
        assert_eq!(to((3, 3), (1, 1), &careful), [("old".to_owned(), 0)]);
    }

    #[test]
    fn a_rollout_never_has_too_few_or_too_many() {
        for (replicas, surge, unavailable) in [(1, 1, 0), (3, 1, 0), (4, 1, 1), (10, 3, 2), (5, 0, 1)] {
            let settings = settings(replicas, surge, unavailable);
            let (mut new, mut old) = (set("new", 0, 0), set("old", replicas, replicas));
            for _ in 0..100 {
                let up = new_size(&settings, Some(&new), std::slice::from_ref(&old));
                let down = if up.is_empty() {
                    old_sizes(&settings, Some(&new), std::slice::from_ref(&old))
                } else {
                    vec![]
                };
                for resize in up.into_iter().chain(down) {
                    let target = if resize.name == "new" { &mut new } else { &mut old };
                    let lower = available(target).min(resize.to);
                    *target = set(&resize.name, resize.to, lower);
                }
                let working = available(&new) + available(&old);
                assert!(working >= replicas - unavailable, "{settings:?}: {working}");
                assert!(total([&new, &old]) <= replicas + surge, "{settings:?}");
                // One more of the new pods becomes ready.
                new = set("new", self::replicas(&new), (available(&new) + 1).min(self::replicas(&new)));
            }
            assert_eq!((self::replicas(&new), self::replicas(&old)), (replicas, 0), "{settings:?}");
        }
    }

    #[test]
    fn scaling_in_a_rollout_is_in_proportion() {
        let annotations = json!({DESIRED: "10", MAX: "13"});
        let (new, old) = (annotated("new", 5, 5, &annotations), [annotated("old", 8, 8, &annotations)]);
        let wider = settings(15, 4, 3);
        assert!(is_scaling(&wider, std::iter::once(&new)));
        assert!(!is_scaling(&settings(10, 3, 2), std::iter::once(&new)));
        let mut to = sizes(proportional(&wider, Some(&new), &old));
        to.sort();
        assert_eq!(to, [("new".to_owned(), 7), ("old".to_owned(), 12)]);
        assert_eq!(
            sizes(proportional(&settings(7, 2, 1), Some(&set("only", 3, 3)), &[])),
            [("only".to_owned(), 7)]
        );
        let mut none = sizes(proportional(&settings(0, 0, 0), Some(&new), &old));
        none.sort();
        assert_eq!(none, [("new".to_owned(), 0), ("old".to_owned(), 0)]);
    }

    #[test]
    fn history_past_the_limit_is_forgotten_from_the_oldest() {
        let old: Vec<_> = (1..=4)
            .map(|revision| {
                let size = i32::from(revision == 2);
                annotated(&format!("r{revision}"), size, size, &json!({view::REVISION: revision.to_string()}))
            })
            .collect();
        assert_eq!(beyond_history_limit(&old, 2), ["r1", "r3"]);
        assert!(beyond_history_limit(&old, 10).is_empty());
    }
}
