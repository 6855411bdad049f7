//! All operations of Daytona's API, and which of them this server has.
//!
//! The table is the one list that the server's routes, its answers to everything else and the page
//! `docs/reference/daytona-coverage.md` are checked against.

mod control_plane;
mod markdown;
mod reasons;
mod toolbox;

pub use markdown::coverage_markdown;

/// Which base address an operation is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plane {
    /// `DAYTONA_API_URL`.
    ControlPlane,
    /// `toolboxProxyUrl` and the sandbox's id.
    Toolbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// The method of a request, if any operation uses it.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete]
            .into_iter()
            .find(|method| method.as_str() == name)
    }
}

/// What the server does with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Supported,
    /// Answered for older SDKs; newer ones do not ask.
    Shim,
    /// Answered with 503, as Daytona does where the plugin for it is not installed.
    Unavailable,
    /// Answered with 501 and `NOT_IMPLEMENTED`.
    NotImplemented {
        /// What to use, as the end of "use …".
        instead: &'static str,
    },
}

/// Where an operation is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the OpenAPI documents, of which `spec/operations.json` is an extract.
    Specification,
    /// In SDKs only: WebSockets, what SDKs after the documents brought, and what older ones ask.
    SdkOnly,
}

/// One method on one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub plane: Plane,
    pub method: Method,
    /// With parameters in braces, as in the documents.
    pub path: &'static str,
    pub id: &'static str,
    pub tag: &'static str,
    pub support: Support,
    pub origin: Origin,
}

impl Operation {
    const fn new(
        plane: Plane,
        method: Method,
        path: &'static str,
        id: &'static str,
        tag: &'static str,
        support: Support,
    ) -> Self {
        Self {
            plane,
            method,
            path,
            id,
            tag,
            support,
            origin: Origin::Specification,
        }
    }

    const fn outside_specification(self) -> Self {
        Self {
            origin: Origin::SdkOnly,
            ..self
        }
    }

    /// How many segments are literal, if the path fits.
    fn literal_segments(&self, path: &str) -> Option<usize> {
        let mut segments = path.split('/');
        let mut literal = 0;
        for expected in self.path.split('/') {
            let segment = segments.next()?;
            if expected.starts_with('{') {
                if segment.is_empty() {
                    return None;
                }
            } else if expected == segment {
                literal += 1;
            } else {
                return None;
            }
        }
        segments.next().is_none().then_some(literal)
    }
}

/// All operations of a plane.
pub fn operations(plane: Plane) -> &'static [Operation] {
    match plane {
        Plane::ControlPlane => control_plane::OPERATIONS,
        Plane::Toolbox => toolbox::OPERATIONS,
    }
}

/// The operation that a request means; `path` is below the plane's base. Literal segments win over parameters.
pub fn find(plane: Plane, method: Method, path: &str) -> Option<&'static Operation> {
    operations(plane)
        .iter()
        .filter(|operation| operation.method == method)
        .filter_map(|operation| Some((operation.literal_segments(path)?, operation)))
        .max_by_key(|(literal, _)| *literal)
        .map(|(_, operation)| operation)
}

/// What opens the door to older SDKs, each with the versions that need it.
pub const SHIMS: [(&str, &str); 4] = [
    (
        "`/toolbox/{sandboxId}/toolbox/…` of the control plane is the toolbox",
        "before 0.125",
    ),
    (
        "`GET /sandbox/paginated` lists by pages with numbers",
        "0.112 to 0.168",
    ),
    (
        "the logs of a session's command are text/plain",
        "before 0.167",
    ),
    ("`GET /project-dir` is `GET /work-dir`", "the oldest"),
];

#[cfg(test)]
mod tests;
