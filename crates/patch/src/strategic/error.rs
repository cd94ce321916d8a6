//! Errors of strategic merge patches, with apimachinery's texts.

use serde_json::{Map, Value};

use crate::gofmt;

/// A strategic merge patch that cannot be applied, or two objects for which no patch can be computed.
///
/// The texts are those of apimachinery, because clients print them. kube-apiserver responds to most of these errors with 500.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table does not have this type.
    #[error("no type {0} to merge by")]
    UnknownType(String),
    /// The patch or the object is not a JSON object.
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
    /// `$patch` has an invalid value.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective {
        /// The invalid value.
        directive: String,
        /// The object that contains it.
        map: String,
    },
    /// `$patch: merge` in a list element.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// A value has another JSON type than the directive needs.
    #[error("expected a {expected}, but received a {actual}")]
    WrongType {
        /// The type that is needed.
        expected: &'static str,
        /// The type that was found.
        actual: &'static str,
    },
    /// A list whose elements are lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The elements of a list to merge have different JSON types.
    #[error("list element types are not identical: {0}")]
    MixedList(String),
    /// `$setElementOrder` is used for lists without elements.
    #[error("no elements in any of the given slices")]
    NoElements,
    /// A list of objects to merge has no merge key.
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
    /// A list or object is in a field that the type does not have.
    #[error("unable to find api field in struct {owner} for the json field {}", gofmt::quote(field))]
    UnknownField {
        /// The Go name of the type.
        owner: &'static str,
        /// The field.
        field: String,
    },
    /// An object is to be merged, but the type is not a struct.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NotAStruct(&'static str),
    /// A list is to be merged, but the type is not a list.
    #[error("expected slice or array type, but got: {0}")]
    NotAList(&'static str),
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
