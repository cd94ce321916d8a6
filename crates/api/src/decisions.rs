//! How a reader proves to a picker that it may read decisions and metrics, and what the pages of pickers say.
//!
//! The API server passes no `Authorization` header on to pods. So a reader asks the API server for a token of the picker's
//! own service account, made for [`AUDIENCE`] only, and sends it in [`TOKEN_HEADER`]. RBAC decides who may have such a token
//! (`create` of `serviceaccounts/token`) and who may reach the pod (`get` of `pods/proxy`). The token opens nothing else:
//! the API server itself refuses it, so a pod that only looks like a picker gains nothing from it.

/// The audience of tokens for readers of decisions.
pub const AUDIENCE: &str = "longboat.dev/decisions";

/// The header that holds the token.
pub const TOKEN_HEADER: &str = "x-longboat-token";

/// The body of the 404 of a process that picks for several pools, but not for the one in the path.
pub const NO_PICKER: &str = "this process does not pick for the pool";
