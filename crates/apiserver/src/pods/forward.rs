//! `pods/portforward`.

use crate::{
    answer::Answer,
    status::ApiError,
    verbs::{Call, pods},
};

/// Opens a port-forwarding session.
pub(crate) fn open(call: &Call<'_>) -> Result<Answer, ApiError> {
    let node = pods::connect(call)?;
    let _access = pods::access(call, &node)?;
    Err(ApiError::bad_request("unable to upgrade: missing upgrade headers in request"))
}
