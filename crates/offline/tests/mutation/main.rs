//! No field is ignored silently: for each leaf of the API that is changed in a live service, a child is written, its status
//! or a warning changes, or the change is refused.
//!
//! Each of our own leaves is changed in each shape of `tests/cases/topology`. Each leaf of another API (pods, routes, pools,
//! claims) is changed in the first shape in which it can have an effect. `LONGBOAT_MUTATIONS=all` changes these in each
//! shape, too. `LONGBOAT_LEAF=spec.router` restricts the test to leaves whose paths start with that.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and the counts are what it is read for"
)]

mod crowd;
mod leaves;
mod shape;

use std::collections::{BTreeMap, BTreeSet};

use leaves::{Leaf, with};
use longboat_admission::Facts;
use longboat_api::crd;
use longboat_manifest::parallel;
use longboat_strategy::kinds::{Registry, custom};
use serde_json::Value;
use shape::{Admitted, Shape};

/// Leaves that may have no effect without a message: the end of the leaf's path, the shape or `*`, and the reason.
const SILENT: [(&str, &str, &str); 8] = [
    ("spec.replicas", "*", LET_GO),
    ("prefill.replicas", "*", LET_GO),
    ("spec.labels", "*", TAKEN_AWAY),
    ("spec.annotations", "*", TAKEN_AWAY),
    ("prefill.labels", "*", TAKEN_AWAY),
    ("prefill.annotations", "*", TAKEN_AWAY),
    ("scheduler.labels", "*", TAKEN_AWAY),
    ("scheduler.annotations", "*", TAKEN_AWAY),
];

const LET_GO: &str = "without a wish the live number stays, as somebody else may scale the workload";
const TAKEN_AWAY: &str = "what is taken away stays on pods until they change for another reason, as with the reference: \
                          others mark pod templates, too (`kubectl rollout restart`), and who did is not written down";

/// Leaves for which every value is refused: a part of the leaf's path, and the rule.
const REFUSED: [(&str, &str); 6] = [
    ("advanced.horizontalPodAutoscalerConfig.name", "CEL-13: the controller chooses the name"),
    (
        ".wva.keda.advanced.scalingModifiers.",
        "CEL-10: the variant autoscaler decides how many replicas there are",
    ),
    (".filters[].externalAuth.", "the types of filters, which are the reference's, do not have this one"),
    (".filters[].type", FORM),
    (".requestRedirect.path.type", FORM),
    (".urlRewrite.path.type", FORM),
];

const FORM: &str =
    "the form of an object, which is another one with the fields of that form only: it changes with them";

/// If there are at most this many leaves, they are changed one by one.
const FEW: usize = 10;

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// No value was accepted.
    Refused,
    /// Nothing changed.
    Silent,
    /// The change has an effect, and reverting it has none.
    OneWay,
    /// A warning reports that the leaf has no effect.
    Warned,
    /// Something changed.
    Acts,
}

/// The effect of a leaf in a shape.
struct Found {
    shape: String,
    leaf: String,
    verdict: Verdict,
}

fn found(shape: &Shape, leaf: &Leaf, verdict: Verdict) -> Found {
    Found { shape: shape.name.clone(), leaf: leaf.path.clone(), verdict }
}

fn definition() -> Value {
    let all = crd::own();
    all.into_iter().find(|crd| crd["spec"]["names"]["kind"] == "LLMInferenceService").unwrap()
}

#[test]
fn no_leaf_of_the_api_is_silent_in_any_shape() {
    let definition = definition();
    let registry = Registry::default();
    registry.put_custom("llm", custom::resources(&definition));
    let resource = registry.find_kind("serving.kserve.io/v1alpha2", "LLMInferenceService").unwrap();
    let versions = definition["spec"]["versions"].as_array().unwrap();
    let root =
        &versions.iter().find(|version| version["name"] == "v1alpha2").unwrap()["schema"]["openAPIV3Schema"];
    let mut leaves = leaves::all(root);
    let part = std::env::var("LONGBOAT_LEAF").ok();
    if let Some(prefix) = &part {
        leaves.retain(|leaf| leaf.path.starts_with(prefix));
    }
    let (shapes, facts) = (Shape::all(), Facts::default());
    let everywhere = std::env::var("LONGBOAT_MUTATIONS").is_ok_and(|value| value == "all");

    // Parts of other APIs are copied unchanged, so all of their leaves can be changed together.
    let mut parts: BTreeMap<&str, Vec<&Leaf>> = BTreeMap::new();
    for leaf in &leaves {
        if let Some(part) = leaf.subtree() {
            parts.entry(part).or_default().push(leaf);
        }
    }
    let parts: Vec<_> = parts.into_values().enumerate().collect();
    let reached = parallel::map(&parts, |(at, part)| {
        let (mut all, mut left) = (Vec::new(), part.clone());
        for shape in shapes.iter().cycle().skip(*at).take(shapes.len()) {
            let crowd = if everywhere { part } else { &left };
            let reaching = crowd::reaching(shape, &resource, &facts, root, crowd);
            let names: BTreeSet<&str> = reaching.iter().map(|leaf| leaf.path.as_str()).collect();
            left.retain(|leaf| !names.contains(leaf.path.as_str()));
            all.extend(reaching.into_iter().map(|leaf| found(shape, leaf, Verdict::Acts)));
            if left.len() < FEW && !everywhere {
                break;
            }
        }
        all
    });
    let mut all: Vec<Found> = reached.into_iter().flatten().collect();
    let known: BTreeSet<String> = all.iter().map(|found| found.leaf.clone()).collect();

    // The other leaves are changed one by one. Leaves with the same parent share their initial object.
    let mut families: BTreeMap<&str, Vec<(usize, &Leaf)>> = BTreeMap::new();
    for (at, leaf) in leaves.iter().enumerate().filter(|(_, leaf)| !known.contains(&leaf.path)) {
        let parent = leaf.path.rsplit_once('.').map_or("", |(parent, _)| parent);
        families.entry(parent).or_default().push((at, leaf));
    }
    let families: Vec<_> = families.into_values().collect();
    let changed = parallel::map(&families, |family| {
        let mut all = Vec::new();
        let (first, leaf) = family[0];
        let mut left: Vec<&Leaf> = family.iter().map(|(_, leaf)| *leaf).collect();
        for shape in shapes.iter().cycle().skip(first % shapes.len()).take(shapes.len()) {
            if left.is_empty() {
                break;
            }
            let base = with(&shape.service, root, &leaf.steps, None);
            let start = shape.admit(&resource, &facts, &base).ok();
            left.retain(|leaf| {
                let verdict = change(leaf, start.as_ref(), |value| {
                    shape.admit(&resource, &facts, &with(&base, root, &leaf.steps, Some(value))).ok()
                });
                all.push(found(shape, leaf, verdict));
                everywhere || leaf.foreign.is_none() || verdict < Verdict::Warned
            });
        }
        all
    });
    all.extend(changed.into_iter().flatten());
    println!("{} leaves of other APIs were changed together", known.len());
    report(&leaves, &shapes, &all, part.is_some());
}

/// Returns the effect of setting and removing the values of a leaf.
fn change(leaf: &Leaf, start: Option<&Admitted>, admit: impl Fn(&Value) -> Option<Admitted>) -> Verdict {
    let mut first = None;
    let mut verdict = Verdict::Refused;
    for value in &leaf.values {
        let Some(after) = admit(value) else { continue };
        let Some(before) = start.or(first.as_ref()) else {
            first = Some(after);
            continue;
        };
        let this = if Shape::notices(before, &after) {
            if Shape::notices(&after, before) { Verdict::Acts } else { Verdict::OneWay }
        } else if before.warnings != after.warnings || after.warnings.iter().any(|text| is_about(text, leaf))
        {
            Verdict::Warned
        } else if after.is_refused() {
            // The composed spec is refused before and after, for the same reason.
            Verdict::Refused
        } else {
            Verdict::Silent
        };
        verdict = verdict.max(this);
        if verdict == Verdict::Acts {
            break;
        }
    }
    verdict
}

/// Whether a warning is about a field or one of its parents.
fn is_about(warning: &str, leaf: &Leaf) -> bool {
    let path = leaf.path.replace("[]", "");
    // The reference's messages name only the last part.
    warning.split(' ').any(|word| word.contains('.') && path.starts_with(word))
        || warning.split(' ').next().is_some_and(|word| path.split('.').any(|part| part == word))
}

fn report(leaves: &[Leaf], shapes: &[Shape], found: &[Found], is_part: bool) {
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    let mut best: BTreeMap<&str, Verdict> = BTreeMap::new();
    let mut silent: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for one in found {
        *counts.entry(one.verdict).or_default() += 1;
        let known = best.entry(&one.leaf).or_insert(one.verdict);
        *known = one.verdict.max(*known);
        if matches!(one.verdict, Verdict::Silent | Verdict::OneWay) {
            let listed = SILENT.iter().position(|(end, shape, _)| {
                one.leaf.ends_with(end) && (*shape == "*" || *shape == one.shape)
            });
            match listed {
                Some(at) => drop(used.insert(at)),
                None => silent.entry(format!("{} {:?}", one.leaf, one.verdict)).or_default().push(&one.shape),
            }
        }
    }
    let rule = |leaf: &str| REFUSED.iter().any(|(part, _)| leaf.contains(part));
    let never: Vec<_> =
        best.iter().filter(|(leaf, verdict)| **verdict == Verdict::Refused && !rule(leaf)).collect();
    let accepted: Vec<_> =
        best.iter().filter(|(leaf, verdict)| **verdict != Verdict::Refused && rule(leaf)).collect();
    println!("{} leaves in {} shapes, {} changes: {counts:?}", leaves.len(), shapes.len(), found.len());
    let spent: Vec<_> = (0..SILENT.len()).filter(|at| !used.contains(at)).map(|at| SILENT[at]).collect();
    let problems = [
        (never.is_empty(), format!("refused in every shape: {never:#?}")),
        (accepted.is_empty(), format!("not refused any more: {accepted:#?}")),
        (spent.is_empty() || is_part, format!("not silent any more: {spent:#?}")),
        (silent.is_empty(), format!("{} silent: {silent:#?}", silent.len())),
    ];
    let problems: Vec<String> =
        problems.into_iter().filter(|(fine, _)| !fine).map(|(_, problem)| problem).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
