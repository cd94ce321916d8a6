//! What can be wrong with a strategic merge patch, in apimachinery's words.

use serde_json::{Map, Value};

use crate::gofmt;

/// A strategic merge patch that cannot be applied, or two objects whose difference cannot be computed.
///
/// Texts are those of apimachinery, since clients print them; kube-apiserver answers most of them with 500.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The type named is not in the table.
    #[error("no type {0} to merge by")]
    UnknownType(String),
    /// Patch or object is no JSON object.
    #[error("invalid JSON document")]
    NotAnObject,
    /// An element of a keyed list lacks its key.
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element as Go prints it.
        map: String,
        /// The key.
        key: String,
    },
    /// `$patch` holds something else than it may.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// What it holds.
        directive: String,
        /// The object that holds it.
        map: String,
    },
    /// `$patch: merge` in a list element.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A value of another JSON type than the directive needs.
    #[error("expected a {expected}, but received a {actual}")]
    WrongType {
        /// What was needed.
        expected: &'static str,
        /// What was there.
        actual: &'static str,
    },
    /// A list whose elements are lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A list to merge whose elements are of several JSON types.
    #[error("list element types are not identical: {0}")]
    MixedList(String),
    /// `$setElementOrder` for lists without elements.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// A list of objects that has no key to merge by.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyForList(&'static str),
    /// A malformed `$deleteFromPrimitiveList` key.
    #[error("invalid patch format of primitive list")]
    BadPrimitiveList,
    /// A malformed `$retainKeys`, or one that does not cover the patch.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// A malformed `$setElementOrder`.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// `$setElementOrder` contradicts the order of the patch.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The list in the patch.
        patch: String,
        /// The list of the directive.
        order: String,
    },
    /// A list or object in a field that the type does not have.
    #[error("unable to find api field in struct {owner} for the json field {}", gofmt::quoted(field))]
    UnknownField {
        /// The Go name of the type.
        owner: &'static str,
        /// The field.
        field: String,
    },
    /// An object to merge where the type has no struct.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    /// A list to merge where the type has none.
    #[error("expected slice or array type, but got: {0}")]
    NotAList(&'static str),
    /// `$patch` that is no string, in the objects that are compared.
    #[error("invalid value for special key: $patch")]
    BadDirectiveValue,
}

impl Error {
    pub(super) fn no_merge_key(map: &Map<String, Value>, key: &str) -> Self {
        Self::NoMergeKey { map: gofmt::plain_map(map), key: key.to_owned() }
    }

    pub(super) fn wrong_type(expected: &'static str, actual: &Value) -> Self {
        let actual = match gofmt::type_name(actual) {
            "<nil>" => "%!s(<nil>)",
            name => name,
        };
        Self::WrongType { expected, actual }
    }

    pub(super) fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Self {
        let directive = match directive {
            Value::String(text) => text.clone(),
            Value::Null => "%!s(<nil>)".to_owned(),
            other => format!("%!s({}={})", gofmt::type_name(other), gofmt::plain(other)),
        };
        Self::UnknownDirective { directive, map: gofmt::plain_map(map) }
    }
}
