//! A field of an object that is validated.

use std::{
    cell::{RefCell, RefMut},
    fmt::Display,
    ops::Deref,
};

use longboat_key::names::{self, NameRule};
use serde_json::Value;

use crate::Cause;

/// What errors show for a text that is missing.
static EMPTY: Value = Value::String(String::new());

/// A field of an object that is validated: its value, its path, and the list of the object's causes. A missing field is null, and so
/// are the fields below it.
#[derive(Debug, Clone)]
pub struct Field<'v> {
    /// The value.
    pub value: &'v Value,
    /// The path as errors show it: `spec.containers[0].name`.
    pub path: String,
    /// Shared by all fields of the object.
    causes: &'v RefCell<Vec<Cause>>,
}

/// Returns what `check` finds wrong with a value at `path`, which is empty for a whole object.
pub fn causes_of(value: &Value, path: &str, check: impl FnOnce(&Field<'_>)) -> Vec<Cause> {
    let causes = RefCell::default();
    check(&Field { value, path: path.to_owned(), causes: &causes });
    causes.into_inner()
}

// === impl Field ===

impl<'v> Field<'v> {
    /// The field of this name, or below several names with dots between them.
    #[must_use]
    pub fn at(&self, names: &str) -> Self {
        let mut path = String::with_capacity(self.path.len() + 1 + names.len());
        path.push_str(&self.path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(names);
        Self { value: find(self.value, names), path, causes: self.causes }
    }

    /// Like [`Self::at`], for a text that is empty if it is missing.
    #[must_use]
    pub fn text_at(&self, names: &str) -> Self {
        let field = self.at(names);
        if field.is_string() { field } else { Self { value: &EMPTY, ..field } }
    }

    /// The items of this list. A missing list has none.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(index, value)| Self {
            value,
            path: format!("{}[{index}]", self.path),
            ..self.clone()
        })
    }

    /// The items of the list of this name.
    pub fn items(&self, names: &str) -> impl Iterator<Item = Self> + use<'v> {
        self.at(names).each()
    }

    /// The entries of the map of this name, with their keys. A missing map has none.
    pub fn entries(&self, names: &str) -> impl Iterator<Item = (&'v str, Self)> + use<'v> {
        let map = self.at(names);
        let entries = map.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| {
            (key.as_str(), Self { value, path: format!("{}[{key}]", map.path), ..map.clone() })
        })
    }

    /// The same field under another path.
    #[must_use]
    pub fn named(self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// Another value in the place of this field.
    pub fn with<'s>(&'s self, value: &'s Value) -> Field<'s> {
        Field { value, ..self.clone() }
    }

    /// The text of this field, empty if it has none.
    pub fn as_text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The text of the field of this name, empty if it has none.
    pub fn text(&self, names: &str) -> &'v str {
        find(self.value, names).as_str().unwrap_or_default()
    }

    /// The list of this name, empty if it is missing.
    pub fn list(&self, names: &str) -> &'v [Value] {
        find(self.value, names).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// What was reported so far.
    pub fn causes(&self) -> RefMut<'v, Vec<Cause>> {
        self.causes.borrow_mut()
    }

    /// How many causes were reported so far.
    pub fn count(&self) -> usize {
        self.causes.borrow().len()
    }

    /// Reports once more what was reported so far: in an update, kube-apiserver validates many objects twice.
    pub fn repeat(&self) {
        self.causes().extend_from_within(..);
    }

    /// Reports a violated rule.
    pub fn invalid(&self, detail: impl AsRef<str>) {
        self.causes().push(Cause::invalid(self.path.as_str(), self.value, detail));
    }

    /// Reports a violated rule. The message has `shown` instead of the value.
    pub fn invalid_as(&self, shown: impl Display, detail: impl Display) {
        self.causes().push(Cause::invalid_as(self.path.as_str(), shown, detail));
    }

    /// Reports a violated rule of a value that the message does not have.
    pub fn invalid_without_value(&self, detail: impl Display) {
        let message = format!("Invalid value: {detail}");
        let field = self.path.clone();
        self.causes().push(Cause { reason: "FieldValueInvalid", message, field });
    }

    /// Reports that the field is missing.
    pub fn required(&self, detail: impl AsRef<str>) {
        self.causes().push(Cause::required(self.path.as_str(), detail));
    }

    /// Reports a value that is not among the supported ones.
    pub fn unsupported(&self, known: &[&str]) {
        self.causes().push(Cause::unsupported(self.path.as_str(), self.value, known));
    }

    /// Like [`Self::unsupported`], with `shown` in place of the value.
    pub fn unsupported_as(&self, shown: impl Display, known: &[&str]) {
        self.causes().push(Cause::unsupported_as(self.path.as_str(), shown, known));
    }

    /// Reports a field that must not be set, or not be changed.
    pub fn forbidden(&self, detail: impl AsRef<str>) {
        self.causes().push(Cause::forbidden(self.path.as_str(), detail));
    }

    /// Reports a value that another field has.
    pub fn duplicate(&self) {
        self.causes().push(Cause::duplicate(self.path.as_str(), self.value));
    }

    /// Reports a reference to something that does not exist.
    pub fn not_found(&self) {
        self.causes().push(Cause::not_found(self.path.as_str(), self.value));
    }

    /// Reports a value of more than `most` bytes.
    pub fn too_long(&self, most: usize) {
        self.causes().push(Cause::too_long(self.path.as_str(), most));
    }

    /// Refuses a list with more than `most` items.
    pub fn at_most(&self, most: usize) {
        let count = self.as_array().map_or(0, Vec::len);
        if count > most {
            self.causes().push(Cause::too_many(self.path.as_str(), count, most));
        }
    }

    /// Refuses a text that is empty or missing.
    pub fn not_empty(&self, detail: &str) {
        if self.as_text().is_empty() {
            self.required(detail);
        }
    }

    /// Refuses a text that is not one of the known values. A missing text is valid.
    pub fn one_of(&self, known: &[&str]) {
        if self.is_string() && !known.contains(&self.as_text()) {
            self.unsupported(known);
        }
    }

    /// Refuses a text that violates the rule for names.
    pub fn name(&self, rule: NameRule) {
        for problem in names::problems(rule, self.as_text()) {
            self.invalid(problem);
        }
    }

    /// Like [`Self::name`], but accepts a text that is empty or missing.
    pub fn optional_name(&self, rule: NameRule) {
        if !self.as_text().is_empty() {
            self.name(rule);
        }
    }

    /// Like [`Self::name`], and refuses a text that is empty or missing as such.
    pub fn required_name(&self, rule: NameRule) {
        self.not_empty("");
        self.optional_name(rule);
    }
}

impl Deref for Field<'_> {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value
    }
}

pub(crate) fn find<'v>(value: &'v Value, names: &str) -> &'v Value {
    names.split('.').fold(value, |value, name| &value[name])
}
