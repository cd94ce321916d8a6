//! Rules for routes and Gateways.

use super::Report;
use crate::conversion::Version;
use crate::foreign::reference::ParentReference;
use crate::v1alpha2::{GatewayReference, RouterSpec};

const HTTP: &str = "spec.router.route.http";

/// Checks that route and gateway are compatible. In `v1alpha1`, they exclude each other even if they agree.
pub(super) fn check(router: &RouterSpec, version: Version, report: &mut Report) {
    let Some(http) = router.route.as_ref().and_then(|route| route.http.as_ref()) else { return };
    if !http.refs.is_empty() && http.spec.is_some() {
        report.invalid(
            HTTP,
            http,
            "unsupported configuration: cannot use both custom HTTPRoute refs ('spec.router.route.http.refs') and an \
             inline route spec ('spec.router.route.http.spec'); choose one",
        );
    }
    let Some(gateway) = &router.gateway else { return };
    if !http.refs.is_empty() && gateway.refs.is_empty() {
        report.invalid(
            format!("{HTTP}.refs"),
            &http.refs,
            "unsupported configuration: custom HTTP routes ('spec.router.route.http.refs') cannot be used with a \
             managed gateway ('spec.router.gateway: {}'); name the gateways in 'spec.router.gateway.refs' or remove \
             the gateway",
        );
    }
    let Some(spec) = &http.spec else { return };
    if spec.parent_refs.is_empty() || gateway.refs.is_empty() {
        return;
    }
    if version == Version::V1Alpha1 {
        report.invalid(
            format!("{HTTP}.spec"),
            spec,
            "unsupported configuration: managed HTTP route spec ('spec.router.route.http.spec') cannot be used with \
             custom gateway refs ('spec.router.gateway.refs'); either remove 'spec.router.gateway.refs' or \
             'spec.router.route.http.spec.parentRefs'",
        );
    } else if same_gateways(&spec.parent_refs, &gateway.refs) {
        report.warn(
            "spec.router.route.http.spec.parentRefs can be omitted when spec.router.gateway.refs is set; parentRefs \
             will be derived automatically from gateway refs",
        );
    } else {
        report.invalid(
            format!("{HTTP}.spec"),
            spec,
            "unsupported configuration: managed HTTP route spec ('spec.router.route.http.spec') has parentRefs that \
             conflict with custom gateway refs ('spec.router.gateway.refs'); either remove \
             'spec.router.gateway.refs' or 'spec.router.route.http.spec.parentRefs'",
        );
    }
}

/// Whether both name the same gateways, in any order. A missing namespace differs from the service's own namespace if that
/// is written explicitly.
fn same_gateways(parents: &[ParentReference], gateways: &[GatewayReference]) -> bool {
    let mut left: Vec<_> = parents
        .iter()
        .map(|p| {
            let section = p.section_name.as_deref().unwrap_or_default();
            (p.namespace.as_deref().unwrap_or_default(), p.name.as_str(), section)
        })
        .collect();
    let mut right: Vec<_> = gateways
        .iter()
        .map(|g| (g.namespace.as_str(), g.name.as_str(), g.section_name.as_deref().unwrap_or_default()))
        .collect();
    left.sort_unstable();
    right.sort_unstable();
    left == right
}
