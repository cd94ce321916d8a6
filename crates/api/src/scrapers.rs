//! The access review for readers of metrics, as in controller-runtime.

use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};

/// Creates a review of whether this user may `get` the path `/metrics`.
///
/// The review contains everything that is known about the user: an authorizer may decide by groups, by the uid, or by
/// `extra`.
pub fn may_read_metrics(user: UserInfo) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some("/metrics".to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn all_that_is_known_of_the_user_goes_along() {
        let user = UserInfo {
            username: Some("prometheus".to_owned()),
            groups: Some(vec!["scrapers".to_owned()]),
            uid: Some("1".to_owned()),
            extra: Some(BTreeMap::from([("example.com/scopes".to_owned(), vec!["metrics".to_owned()])])),
        };
        let spec = may_read_metrics(user.clone()).spec;
        assert_eq!(
            (spec.user, spec.groups, spec.uid, spec.extra),
            (user.username, user.groups, user.uid, user.extra)
        );
        let attributes = spec.non_resource_attributes.unwrap();
        assert_eq!((attributes.verb.as_deref(), attributes.path.as_deref()), (Some("get"), Some("/metrics")));
    }
}
