//! Rules for traffic splitting in routing groups.

use super::Report;
use crate::v1alpha2::RouterSpec;

const GROUP: &str = "spec.router.route.group";

/// Checks group and weight.
pub(super) fn check(router: &RouterSpec, report: &mut Report) {
    let Some(route) = &router.route else { return };
    if route.group.is_none() && route.weight.is_none() {
        return;
    }
    if router.ingress.is_some() {
        report.invalid(
            GROUP,
            &route.group,
            "traffic splitting requires Gateway API routing; the controller manages HTTPRoutes, not Ingress resources",
        );
        return;
    }
    match (&route.group, route.weight) {
        (None, _) => report.required(GROUP, "weight requires group"),
        (_, None) => report.required("spec.router.route.weight", "group requires weight"),
        (Some(group), Some(_)) if !route.refs().is_empty() => report.invalid(
            GROUP,
            group,
            "traffic splitting cannot be used with custom HTTPRoute refs; controller-managed routes (route.http.spec \
             or route.http: {}) are required",
        ),
        _ => {}
    }
}
