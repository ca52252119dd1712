# The controller's image, for those who build with Docker or another builder of Dockerfiles.
# `make image` builds the same content without one. For several platforms:
#
#   docker buildx build --platform linux/amd64,linux/arm64 \
#     --build-arg VERSION=v0.1.0 --build-arg REVISION=$(git rev-parse HEAD) \
#     --build-arg BUILD_DATE=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ) \
#     --tag trainjob-controller:v0.1.0 .

# The build runs on the builder's own platform and compiles for the other.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY apis apis
COPY cmd cmd
COPY generated generated
COPY pkg pkg
ARG TARGETOS TARGETARCH
# Must begin like v1.2.3: the metrics library reads it.
ARG VERSION=v0.0.0
ARG REVISION=
ARG BUILD_DATE=
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$VERSION -X k8s.io/component-base/version.gitCommit=$REVISION -X k8s.io/component-base/version.buildDate=$BUILD_DATE" \
    -o /trainjob-controller ./cmd/trainjob-controller

# Nothing but the binary: it trusts the cluster's own authority, which is mounted, and needs
# no other certificates, no names of users and no time zones.
FROM scratch
ARG VERSION=v0.0.0
ARG REVISION=
LABEL org.opencontainers.image.title=trainjob-controller \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build --chmod=0555 /trainjob-controller /trainjob-controller
USER 65532:65532
ENTRYPOINT ["/trainjob-controller"]
