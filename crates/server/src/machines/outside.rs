//! The way out of a box: through the gateway, by the sandbox's policy.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holm_egress::{
    CertificateAuthority, Gateway, Handle, Hidden, Limits, ListError, Policy, Roots, Rules,
    SecretError, SecretRule, Settings, SystemResolver, bundle_pem,
};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::ServeError;
use crate::records::{NetworkSettings, SecretRecord};

/// Where the gateway is found inside a box.
pub(crate) const GATEWAY_PORT: u16 = 3128;
/// The roots that programs in a box trust, with the gateway's own.
pub(crate) const BUNDLE_PLACE: &str = "/run/holm/ca-certificates.pem";

/// What all boxes share of the way out.
#[derive(Debug)]
pub(crate) struct Outside {
    /// Also the way of the server's own calls to places that users name.
    pub(crate) gateway: Gateway,
    /// The bundle on the host, which is shown in every box.
    pub(crate) bundle: PathBuf,
}

/// The way out of one box. Dropping it closes every connection.
#[derive(Debug)]
pub(crate) struct WayOut {
    policy: watch::Sender<Arc<Policy>>,
    secrets: watch::Sender<Arc<Vec<SecretRule>>>,
    _handle: Handle,
}

impl Outside {
    /// Loads the authority that vouches for hosts towards boxes, or makes it at the first start.
    pub(crate) fn open(data: &Path, own: SocketAddr) -> Result<Self, ServeError> {
        let path = data.join("egress-authority-key.pem");
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| ServeError::Tls {
            path: path.clone(),
            source,
        };
        let authority = match fs::read_to_string(&path) {
            Ok(pem) => CertificateAuthority::load(&pem).map_err(|error| failed(error.into()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let authority =
                    CertificateAuthority::generate().map_err(|error| failed(error.into()))?;
                write_private(&path, authority.key_pem().expose())
                    .map_err(|error| failed(error.into()))?;
                authority
            }
            Err(error) => return Err(failed(error.into())),
        };
        let roots = Roots::of_system().unwrap_or_else(|error| {
            tracing::warn!(%error, "this host has no certificate roots: boxes cannot use secrets over TLS");
            Roots::none()
        });
        let bundle = data.join("ca-certificates.pem");
        fs::write(&bundle, bundle_pem(&roots, &authority))
            // Boxes read it, whatever the umask says.
            .and_then(|()| fs::set_permissions(&bundle, fs::Permissions::from_mode(0o644)))
            .map_err(|source| ServeError::Folder {
                doing: "write",
                path: bundle.clone(),
                source,
            })?;
        let gateway = Gateway::new(Settings {
            rules: Rules::new(vec![own]),
            resolver: Arc::new(SystemResolver),
            roots,
            authority: Arc::new(authority),
        })
        .map_err(|error| failed(error.into()))?;
        Ok(Self { gateway, bundle })
    }

    /// Serves the box behind a socket that listens inside of it. Called within the runtime.
    pub(crate) fn serve(
        &self,
        listener: OwnedFd,
        settings: &NetworkSettings,
        secrets: Vec<SecretRule>,
    ) -> std::io::Result<WayOut> {
        let listener = TcpListener::from_std(listener.into())?;
        // Checked when it was set; one that is not understood lets nothing out.
        let policy = policy(settings).unwrap_or(Policy::Blocked);
        let (policy, policies) = watch::channel(Arc::new(policy));
        let (secrets, rules) = watch::channel(Arc::new(secrets));
        Ok(WayOut {
            policy,
            secrets,
            _handle: self
                .gateway
                .serve(listener, policies, rules, Limits::default()),
        })
    }
}

impl WayOut {
    pub(crate) fn set_policy(&self, policy: Policy) {
        self.policy.send_replace(Arc::new(policy));
    }

    pub(crate) fn set_secrets(&self, secrets: Vec<SecretRule>) {
        self.secrets.send_replace(Arc::new(secrets));
    }
}

/// Daytona's settings as a policy. Blocking everything wins over the lists.
pub(crate) fn policy(settings: &NetworkSettings) -> Result<Policy, ListError> {
    let lists = Policy::from_lists(
        settings.allow_list.as_deref().unwrap_or_default(),
        settings.domain_allow_list.as_deref().unwrap_or_default(),
    )?;
    Ok(if settings.block_all {
        Policy::Blocked
    } else {
        lists
    })
}

/// A stored secret as the gateway uses it.
pub(crate) fn rule(secret: &SecretRecord) -> Result<SecretRule, SecretError> {
    SecretRule::new(
        secret.placeholder.clone(),
        Hidden::new(secret.value.expose()),
        secret.hosts.iter().map(String::as_str),
    )
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
