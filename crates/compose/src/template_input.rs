//! The inputs of a template: the fields that it names, their paths in the service, and their values.

use longboat_template::reflect::{Struct, Ty};
use serde::Serialize;
use serde_json::Value;

use crate::{render, schema};

/// A field that a template names, and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TemplateInput {
    /// The name in the template, `.Spec.Model.Name`.
    pub field: String,
    /// The path in the service, `spec.model.name`; `None` for platform settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its value; `None` if it is not set.
    pub value: Option<Value>,
}

/// Whether `text` is a syntactically valid template as a value of a config, whose JSON text is rendered: there, quotes have backslashes.
pub fn template_is_sound(text: &str) -> bool {
    render::parse(&Value::from(text).to_string()).is_ok()
}

/// The inputs of the template in `text`. Empty if `text` is not a valid template.
pub(crate) fn of(text: &str, data: &Value) -> Vec<TemplateInput> {
    let Ok(template) = render::parse(text) else { return Vec::new() };
    template.fields().into_iter().map(|field| look_up(field, data)).collect()
}

fn look_up(field: String, data: &Value) -> TemplateInput {
    let mut ty = schema::TYPES.template_data;
    let mut value = Some(data);
    let mut keys = Vec::new();
    for name in field.split('.').skip(1) {
        while let Ty::Ptr(inner) = ty {
            ty = *inner;
        }
        let (steps, inner) = match ty {
            Ty::Struct(s) => match find(s, name) {
                Some(found) => found,
                None => return TemplateInput { field, path: None, value: None },
            },
            Ty::Map(_, inner) => (vec![name.to_owned()], *inner),
            _ => (vec![name.to_owned()], Ty::Any),
        };
        for step in steps {
            value = value.and_then(|value| value.get(&step));
            keys.push(step);
        }
        ty = inner;
    }
    let of_service = keys.first().is_some_and(|key| key == schema::SERVICE_KEY);
    TemplateInput {
        field,
        path: of_service.then(|| keys[1..].join(".")),
        value: value.filter(|value| !value.is_null()).cloned(),
    }
}

/// Returns the JSON keys that lead to a field with this Go name, and its type. Fields of embedded structs count as fields of
/// the outer struct.
fn find(s: &'static Struct, name: &str) -> Option<(Vec<String>, Ty)> {
    let own = |json: &str| if json.is_empty() { Vec::new() } else { vec![json.to_owned()] };
    if let Some(field) = s.fields().iter().find(|field| field.go == name) {
        return Some((own(field.json), field.ty));
    }
    s.fields().iter().filter(|field| field.embedded).find_map(|field| {
        let mut ty = field.ty;
        while let Ty::Ptr(inner) = ty {
            ty = *inner;
        }
        let Ty::Struct(inner) = ty else { return None };
        let (rest, ty) = find(inner, name)?;
        Some((own(field.json).into_iter().chain(rest).collect(), ty))
    })
}
