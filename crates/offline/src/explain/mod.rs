//! `explain`: which layer set each field, what it replaced, and where the rest comes from.

mod child;
mod field;
mod layers;
mod suggestions;
mod text;
mod trace;

use std::collections::BTreeMap;

use k8s_openapi::Resource;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::go;
use longboat_plan::{kinds, paths, types};
use serde::Serialize;
use thiserror::Error;

pub(crate) use child::sources;
pub use child::{ChildField, Source};
pub(crate) use field::View;
pub use field::{Field, ReplacedValue, Setter, SetterKind, Template};
pub use layers::{LayerView, Setting};
pub(crate) use text::{around, setter, short};

use crate::scene::{PlanningError, Scene};

/// An explanation of a service, whose `namespace/name` each has.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the variants say what their fields are")]
pub enum Explanation {
    /// The layers, lowest first, with the fields that each one sets.
    Layers { service: String, layers: Vec<LayerView> },
    /// Fields of the composed spec, by path.
    Fields { service: String, fields: Vec<Field> },
    /// Fields of children, by object and path.
    Children { service: String, fields: Vec<ChildField> },
}

/// Why nothing can be explained.
#[derive(Debug, Error)]
pub enum ExplainError {
    /// The service cannot be composed.
    #[error(transparent)]
    Planning(#[from] PlanningError),
    /// The path cannot be parsed.
    #[error("invalid path `{0}`: a bracket is not closed")]
    Path(String),
    /// The field exists, but has no value.
    #[error("`{path}` of {service} is not set: no layer sets it, and composing does not add it")]
    Unset {
        /// The service.
        service: String,
        /// The path as given.
        path: String,
    },
    /// The field does not exist.
    #[error("{service} has no field `{path}`{}", hint(nearest))]
    Unknown {
        /// The service.
        service: String,
        /// The path as given.
        path: String,
        /// Paths that resemble it.
        nearest: Vec<String>,
    },
    /// The object does not exist.
    #[error("{service} has no object for `{path}`: it has {}", others.join(", "))]
    NoChild {
        /// The service.
        service: String,
        /// The path as given.
        path: String,
        /// The objects that it has.
        others: Vec<String>,
    },
}

fn hint(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        [one] => format!(" (did you mean `{one}`?)"),
        several => {
            let several: Vec<String> = several.iter().map(|path| format!("`{path}`")).collect();
            format!(" (the nearest: {})", several.join(", "))
        }
    }
}

/// Explains a service, or the fields at and below a path. The path leads into the composed spec, or into a child if it starts
/// with the child's kind (`deployment.spec…`, or `deployment/NAME.spec…` if there are several).
///
/// # Errors
/// If the service cannot be composed, or the field does not exist.
pub fn explain(
    scene: &Scene,
    service: &LLMInferenceService,
    path: Option<&str>,
) -> Result<Explanation, ExplainError> {
    let name = full_name(service);
    let effective = &scene.compose(service).map_err(PlanningError::from)?;
    let view = View { scene, service, effective };
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Ok(Explanation::Layers { service: name, layers: layers::of(view) });
    };
    if let Some((kind, object, rest)) = child_path(path) {
        let steps = paths::parse(rest).ok_or_else(|| ExplainError::Path(path.to_owned()))?;
        let fields = child::fields(view, path, (kind, object), &steps)?;
        return Ok(Explanation::Children { service: name, fields });
    }
    let inner = match path.strip_prefix("spec") {
        Some("") => "",
        Some(rest) if rest.starts_with(['.', '[']) => rest,
        _ => path,
    };
    let steps = paths::parse(inner).ok_or_else(|| ExplainError::Path(path.to_owned()))?;
    let fields = field::fields(view, &steps);
    if fields.is_empty() && go::is_field(&format!("spec.{}", inner.trim_start_matches('.'))) {
        return Err(ExplainError::Unset { service: name, path: path.to_owned() });
    }
    if fields.is_empty() {
        let provenance = effective.provenance();
        let known: Vec<&str> = provenance.iter().map(|(path, _)| path).collect();
        let nearest = suggestions::similar_paths(&known, inner, "spec.");
        return Err(ExplainError::Unknown { service: name, path: path.to_owned(), nearest });
    }
    Ok(Explanation::Fields { service: name, fields })
}

/// Returns the layer that set each field of a service's composed spec, by JSON pointer into `{"spec": …}`.
pub(crate) fn setters(view: View<'_>) -> BTreeMap<String, Setter> {
    let provenance = view.effective.provenance();
    let each = provenance.iter();
    each.map(|(path, leaf)| (format!("/spec{}", leaf.pointer), view.setter(&leaf.origin, path))).collect()
}

/// `namespace/name`.
pub(crate) fn full_name(service: &LLMInferenceService) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&service.metadata.namespace), part(&service.metadata.name))
}

/// The kind of children for this word in lower case.
fn kind_of_child(word: &str) -> Option<&'static str> {
    macro_rules! each {
        ($($(#[$doc:meta])* $field:ident: $kind:ident $child:tt $observed:tt;)*) => {
            [$(<types::$kind as Resource>::KIND),*]
        };
    }
    kinds!(children each).into_iter().find(|kind| kind.to_lowercase() == word)
}

/// Splits a path that starts with a kind of child into kind, name and the path in the child.
fn child_path(path: &str) -> Option<(&'static str, Option<&str>, &str)> {
    let end = path.find(['.', '[', '/']).unwrap_or(path.len());
    let head = path[..end].to_lowercase();
    let kind = kind_of_child(&head)?;
    let rest = &path[end..];
    match rest.strip_prefix('/') {
        // Names of objects may contain dots. The name ends before the first top-level field of an object.
        Some(named) => {
            let members = [".spec", ".metadata", ".data", ".rules", ".subjects", ".roleRef", ".type"];
            let end = members.iter().filter_map(|member| named.find(member)).min().unwrap_or(named.len());
            Some((kind, Some(&named[..end]), named[end..].trim_start_matches('.')))
        }
        None => Some((kind, None, rest.trim_start_matches('.'))),
    }
}
