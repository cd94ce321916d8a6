//! What a status is computed from.

use crate::{
    children::{Applied, Children},
    context::Context,
};

/// The service and the children that the server returned.
pub(crate) struct StatusContext<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) applied: &'a Children<Applied>,
}
