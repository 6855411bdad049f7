//! A database that is reached over the network: TLS with verified certificates, and a password.

use std::error::Error;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::sync::Arc;

use holm_store::{PostgresOptions, PostgresStreams};
use holm_testkit::PostgresServer;
use holm_thread_log::NoRules;
use tempfile::TempDir;

use super::client;
use crate::contract::{Use as _, create, created};

const PASSWORD: &str = "hunter2";

/// A file that only the server reads.
fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    if let Some((user, group)) = PostgresServer::owner() {
        chown(&path, Some(user), Some(group)).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

struct Networked {
    server: PostgresServer,
    folder: TempDir,
    port: u16,
}

async fn start() -> Option<Networked> {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(folder.path().join("authority.pem"), made.cert.pem()).unwrap();
    let certificate = write(folder.path(), "server.crt", &made.cert.pem());
    let key = write(
        folder.path(),
        "server.key",
        &made.signing_key.serialize_pem(),
    );
    let access = write(
        folder.path(),
        "access",
        "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n",
    );
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={certificate}"),
        format!("ssl_key_file={key}"),
        format!("hba_file={access}"),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
    ];
    let server = PostgresServer::start_with(&settings)?;
    let local = client(&server.url().replace(":5432/", &format!(":{port}/"))).await;
    let set = format!("ALTER ROLE {} PASSWORD '{PASSWORD}'", server.user());
    local.batch_execute(&set).await.unwrap();
    Some(Networked {
        server,
        folder,
        port,
    })
}

impl Networked {
    fn url(&self, host: &str, password: &str, parameters: &str) -> String {
        let (user, port) = (self.server.user(), self.port);
        format!("postgres://{user}:{password}@{host}:{port}/postgres?{parameters}")
    }

    async fn refused(&self, host: &str, password: &str, parameters: &str) -> String {
        let url = self.url(host, password, parameters);
        let error = PostgresStreams::connect(&url, Arc::new(NoRules), PostgresOptions::default())
            .await
            .expect_err("it must be refused");
        let causes =
            std::iter::successors(Some(&error as &dyn Error), |error| Error::source(*error));
        let text = causes
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(": ");
        assert!(
            !text.contains(password) && !format!("{error:?}").contains(password),
            "{text}"
        );
        text
    }
}

#[tokio::test]
async fn certificates_are_verified_and_passwords_kept() {
    let Some(networked) = start().await else {
        return;
    };
    let authority = networked.folder.path().join("authority.pem");
    let trusting = format!("sslrootcert={}", authority.display());
    let url = networked.url(
        "localhost",
        PASSWORD,
        &format!("sslmode=verify-full&{trusting}"),
    );
    let store = PostgresStreams::connect(&url, Arc::new(NoRules), PostgresOptions::default())
        .await
        .unwrap();
    created(store.create(create("s")).await);
    assert_eq!(store.text("s").await.unwrap(), "");
    let local = client(
        &networked
            .server
            .url()
            .replace(":5432/", &format!(":{}/", networked.port)),
    )
    .await;
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                 WHERE application_name LIKE 'holm-%' AND NOT ssl";
    assert_eq!(
        local.query_one(plain, &[]).await.unwrap().get::<_, i64>(0),
        0
    );

    // Signed by nobody that this machine trusts; for another name; not asked for; with another password.
    let text = networked
        .refused("localhost", PASSWORD, "sslmode=require")
        .await;
    assert!(text.contains("certificate"), "{text}");
    let text = networked.refused("127.0.0.1", PASSWORD, &trusting).await;
    assert!(text.contains("certificate"), "{text}");
    let text = networked
        .refused("localhost", PASSWORD, "sslmode=disable")
        .await;
    assert!(text.contains("no encryption"), "{text}");
    let text = networked.refused("localhost", "hunter3", &trusting).await;
    assert!(text.contains("password authentication failed"), "{text}");
}
