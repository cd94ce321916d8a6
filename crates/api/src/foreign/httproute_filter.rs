//! Filters of an HTTPRoute.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::{self, go_struct};

/// What to change on the way: the field that `type` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRouteFilter {
    /// Kind of the filter.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    pub type_: String,

    /// Changes headers of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HTTPHeaderFilter>,

    /// Changes headers of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HTTPHeaderFilter>,

    /// Answer with a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<HTTPRequestRedirectFilter>,

    /// Change host or path of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<HTTPURLRewriteFilter>,

    /// The filters that no code of ours reads: a copy to another back end, cross-origin answers, authorization elsewhere, and
    /// filters of the implementation. They are written as they were read.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

go_struct! {
    /// Headers to replace, add and remove.
    #[derive(Eq)]
    pub struct HTTPHeaderFilter {
        /// Headers to replace, or to add where they are not there.
        pub set: Vec<HTTPHeader>,

        /// Headers to add to those of the same name.
        pub add: Vec<HTTPHeader>,

        /// Names of the headers to remove.
        pub remove: Vec<String>,
    }

    /// A header by name, and its value.
    #[derive(Eq)]
    pub struct HTTPHeader {
        /// Name of the header, in any case.
        always pub name: String,

        /// Value of the header, as it is sent.
        always pub value: String,
    }

    /// The redirect to answer with.
    #[derive(Eq)]
    pub struct HTTPRequestRedirectFilter {
        /// Scheme of the new URL.
        pub scheme: Option<String>,

        /// Host of the new URL.
        pub hostname: Option<String>,

        /// Path of the new URL.
        pub path: Option<HTTPPathModifier>,

        /// Port of the new URL.
        pub port: Option<i32>,

        /// Status of the answer.
        pub status_code: Option<i32>,
    }

    /// Host and path to rewrite to.
    #[derive(Eq)]
    pub struct HTTPURLRewriteFilter {
        /// Host that the request is sent on with.
        pub hostname: Option<String>,

        /// Path that the request is sent on with.
        pub path: Option<HTTPPathModifier>,
    }

    /// A change to a path: the field that `type` names.
    #[derive(Eq)]
    pub struct HTTPPathModifier {
        /// Whether the whole path or the matched prefix is replaced.
        #[serde(rename = "type")]
        always pub type_: String,

        /// The whole new path.
        pub replace_full_path: Option<String>,

        /// What takes the place of the matched prefix.
        pub replace_prefix_match: Option<String>,
    }
}
