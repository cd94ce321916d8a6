//! One field of a child: the field of the composed spec from which it is copied, or the rule that created it.

use std::collections::{BTreeMap, BTreeSet};

use longboat_compose::field_path::FieldPath;
use longboat_plan::{
    Plan,
    paths::{self, Step},
    trace::{Target, Traces},
};
use serde::Serialize;
use serde_json::Value;

use super::{
    ExplainError,
    field::{Field, View},
    full_name,
    suggestions::similar_paths,
    trace,
};
use crate::{objects::Object, render, scene::PlanningError};

/// A field of a child.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildField {
    /// `Kind/name`.
    pub object: String,
    /// Its path.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Its origin.
    pub from: Source,
}

/// The origin of a field of a child.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// It is a copy of a field of the composed spec.
    Copied(Box<Field>),
    /// The controller computes it.
    Computed {
        /// The rule.
        rule: String,
        /// The fields of the composed spec on which it depends.
        from: Vec<Field>,
        /// Other inputs: the service's metadata, the platform settings.
        and: Vec<String>,
    },
}

/// Returns the fields at and below `path`, which leads to `wanted` in the children of a kind, or in the one with this name.
pub(super) fn fields(
    view: View<'_>,
    path: &str,
    (kind, name): (&str, Option<&str>),
    steps: &[Step],
) -> Result<Vec<ChildField>, ExplainError> {
    let plan = view.scene.plan_spec(view.service, &view.effective.spec);
    let (plan, ..) = plan.map_err(PlanningError::from)?;
    let objects = render::finished(&plan);
    let of_kind = |object: &&Object| object.value["kind"] == kind;
    let is_selected =
        |object: &&Object| of_kind(object) && name.is_none_or(|name| *object.reference.key.name == *name);
    let mut found: Vec<(usize, FieldPath)> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for (at, object) in objects.iter().enumerate().filter(|(_, object)| is_selected(object)) {
        for (place, _) in paths::leaves(&object.value) {
            known.push(place.path.clone());
            if paths::leads_to(steps, &place.path, &place.pointer) {
                found.push((at, place));
            }
        }
    }
    if !objects.iter().any(|object| is_selected(&object)) {
        let any = objects.iter().any(|object| of_kind(&object));
        let others = objects.iter().filter(|object| !any || of_kind(object));
        return Err(ExplainError::NoChild {
            service: full_name(view.service),
            path: path.to_owned(),
            others: others.map(written).collect(),
        });
    }
    if found.is_empty() {
        let prefix = path.split('.').next().unwrap_or(path);
        let nearest = similar_paths(&known, &paths::written(steps), &format!("{prefix}."));
        return Err(ExplainError::Unknown {
            service: full_name(view.service),
            path: path.to_owned(),
            nearest,
        });
    }
    Ok(explained(view, &objects, found))
}

/// Returns the beginning of paths into a child.
fn written(object: &Object) -> String {
    let kind = object.value["kind"].as_str().unwrap_or_default().to_lowercase();
    format!("{kind}/{}", object.reference.key.name)
}

/// Describes the origin of each of these fields of a child: fields of the composed spec and other inputs. The result has
/// nothing for fields that the child does not have.
pub(crate) fn sources(
    view: View<'_>,
    plan: &Plan,
    (kind, name): (&str, &str),
    fields: &BTreeSet<&str>,
) -> BTreeMap<String, Vec<String>> {
    let objects = render::finished(plan);
    let is_selected = |object: &Object| object.value["kind"] == kind && *object.reference.key.name == *name;
    let Some(at) = objects.iter().position(is_selected) else { return BTreeMap::new() };
    let leaves = paths::leaves(&objects[at].value).into_iter();
    let found =
        leaves.filter(|(place, _)| fields.contains(place.path.as_str())).map(|(place, _)| (at, place));
    let explained = explained(view, &objects, found.collect());
    let named = explained.into_iter().map(|field| {
        let from = match field.from {
            Source::Copied(field) => vec![field.path],
            Source::Computed { from, and, .. } => {
                from.into_iter().map(|field| field.path).chain(and).collect()
            }
        };
        (field.path, from)
    });
    named.collect()
}

/// Describes the origin of fields of children.
fn explained(view: View<'_>, objects: &[Object], found: Vec<(usize, FieldPath)>) -> Vec<ChildField> {
    let View { scene, service, effective } = view;
    let fields: Vec<Target> = found.iter().map(|(at, place)| (*at, place.pointer.clone())).collect();
    let traces = trace::of(scene, service, &effective.spec, objects, &fields);
    let provenance = effective.provenance();
    let by_pointer: BTreeMap<&str, Field> =
        provenance.iter().map(|(path, leaf)| (leaf.pointer.as_str(), view.field(path, leaf))).collect();
    let described = found.into_iter().map(|(at, place)| {
        let object = &objects[at];
        let value = object.value.pointer(&place.pointer).cloned().unwrap_or_default();
        let trace = traces.get(&(at, place.pointer.clone())).cloned().unwrap_or_default();
        let copied = trace.copied.as_deref().and_then(|pointer| by_pointer.get(pointer)).cloned();
        let from = match copied.or_else(|| beside(at, &place, &value, &traces, &by_pointer)) {
            Some(field) => Source::Copied(Box::new(field)),
            None => Source::Computed {
                rule: rule(object, &place.path, &value).to_owned(),
                from: trace
                    .inputs
                    .iter()
                    // Nearly everything depends on some name, so a name explains little.
                    .filter(|pointer| !pointer.ends_with("/name") || pointer.ends_with("model/name"))
                    .filter_map(|pointer| by_pointer.get(pointer.as_str()).cloned())
                    .collect(),
                and: trace.others,
            },
        };
        let kind = object.value["kind"].as_str().unwrap_or_default();
        ChildField { object: format!("{kind}/{}", object.reference.key.name), path: place.path, value, from }
    });
    described.collect()
}

/// Finds the field from which a field without its own trace is copied, by its neighbours in the child. Some fields have no
/// trace: empty objects cannot be changed for tracing, and neither can some names.
fn beside(
    at: usize,
    place: &FieldPath,
    value: &Value,
    traces: &Traces,
    by_pointer: &BTreeMap<&str, Field>,
) -> Option<Field> {
    let (parent, last) = place.pointer.rsplit_once('/')?;
    traces.iter().filter(|((other, _), _)| *other == at).find_map(|((_, pointer), trace)| {
        let copied = trace.copied.as_deref()?;
        let rest = pointer.strip_prefix(parent)?;
        let origin = copied.strip_suffix(rest)?;
        let field = by_pointer.get(format!("{origin}/{last}").as_str())?;
        (field.value == *value).then(|| field.clone())
    })
}

/// The rules for fields that the controller computes. A line has a kind, the beginning of a path, a part of path or value, and the
/// rule; `*` is anything. The first line that fits is used.
const RULES: &str = include_str!("rules.txt");

fn rule(object: &Object, path: &str, value: &Value) -> &'static str {
    let kind = object.value["kind"].as_str().unwrap_or_default();
    let text = value.as_str().unwrap_or_default();
    let found = RULES.lines().find_map(|line| {
        let (pattern, rule) = line.split_once(": ")?;
        let [of, start, part] = pattern.split(' ').collect::<Vec<_>>()[..] else { return None };
        let fits = (of == "*" || of == kind)
            && (start == "*" || path.starts_with(start))
            && (part == "*" || path.contains(part) || text.contains(part));
        fits.then_some(rule)
    });
    found.unwrap_or("the controller adds it")
}
