//! Serialization of structs as in Go: `omitempty`, and `null` treated as missing.

use serde::{Deserialize, Deserializer};

/// Declares structs whose fields are read and written as Go reads and writes those of its types: `null` counts as missing, what
/// is missing has its zero value, and a zero value is not written. `always pub` marks a field without `omitempty`, which is
/// written all the same.
macro_rules! go_struct {
    (@fields [$($head:tt)*] [$($fields:tt)*]) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        $($head)* { $($fields)* }
    };
    (@fields $head:tt [$($fields:tt)*] $(#[$attribute:meta])* pub $field:ident: Option<$Type:ty>, $($more:tt)*) => {
        go_struct!(@fields $head [
            $($fields)*
            $(#[$attribute])*
            #[serde(skip_serializing_if = "Option::is_none")]
            pub $field: Option<$Type>,
        ] $($more)*);
    };
    (@fields $head:tt [$($fields:tt)*] $(#[$attribute:meta])* pub $field:ident: $Type:ty, $($more:tt)*) => {
        go_struct!(@fields $head [
            $($fields)*
            $(#[$attribute])*
            #[serde(
                deserialize_with = "crate::wire::null_default",
                skip_serializing_if = "crate::wire::is_default"
            )]
            pub $field: $Type,
        ] $($more)*);
    };
    (@fields $head:tt [$($fields:tt)*] $(#[$attribute:meta])* always pub $field:ident: $Type:ty, $($more:tt)*) => {
        go_struct!(@fields $head [
            $($fields)*
            $(#[$attribute])*
            #[serde(deserialize_with = "crate::wire::null_default")]
            pub $field: $Type,
        ] $($more)*);
    };
    ($($(#[$attribute:meta])* pub struct $Name:ident { $($fields:tt)* })+) => {
        $(go_struct!(@fields [$(#[$attribute])* pub struct $Name] [] $($fields)*);)+
    };
}

pub(crate) use go_struct;

/// Whether a value is the zero value of its type, which Go omits for a field with `omitempty`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads `null` as the zero value, like Go for a field that is not a pointer.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
