//! What to use in place of operations that this server does not have.

pub(super) const ADMIN: &str = "the settings of `holm serve`";
pub(super) const ARCHIVE: &str = "`POST /sandbox/{sandboxIdOrName}/archive`";
pub(super) const AUDIT: &str = "the log of `holm serve`";
pub(super) const DELETE_KEY: &str = "`DELETE /api-keys/{name}`";
pub(super) const HEALTH: &str = "`GET /health`";
pub(super) const INITIALIZE: &str = "nothing: the server does it when a sandbox starts";
pub(super) const LABELS: &str = "labels that you set when you fork";
pub(super) const LIMITS: &str = "the limits in the settings of `holm serve`";
pub(super) const METRICS: &str = "`GET /system/metrics` of the toolbox";
pub(super) const NO_USERS: &str = "API keys: there are no user accounts";
pub(super) const ONE_ORGANIZATION: &str = "nothing: a server has one organization";
pub(super) const ONE_RUNNER: &str = "nothing: the server runs the sandboxes itself";
pub(super) const ORGANIZATION: &str = "`organizationId` of the sandbox";
pub(super) const OWN_PROXY: &str = "nothing: the server is its own preview proxy";
pub(super) const PUSH_ACCESS: &str = "a snapshot of a sandbox that you copied the files into";
pub(super) const REGIONS: &str = "`GET /regions`";
pub(super) const REGISTRIES: &str = "the registry in the name of the image";
pub(super) const SECRET_VALUES: &str = "nothing: values of secrets do not leave the server";
pub(super) const TELEMETRY: &str = "the logs of sessions, and the log of `holm serve`";
pub(super) const WARM_POOLS: &str = "`POST /sandbox`: it answers when the sandbox has started";
pub(super) const WEBHOOKS: &str = "the events at `/socket.io/`";
