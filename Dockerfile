# syntax=docker/dockerfile:1

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
# timetzdata puts the time zones into the binary: the image has no other files.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata \
      -ldflags "-s -w -X main.release=${VERSION}" -o /out/vobo ./cmd/vobo \
 && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/healthcheck ./deploy/healthcheck
# The two folders that the service writes to. A named volume takes the owner of
# the folder that it is mounted on.
RUN mkdir -p /out/own/data /out/own/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/LICENSE /src/NOTICE /
COPY --from=build --chown=65532:65532 /out/own/ /
COPY --from=build /out/healthcheck /out/vobo /
USER 65532:65532
WORKDIR /data
VOLUME ["/data"]
ENV VOBO_ADDR=0.0.0.0:8080 \
    VOBO_DATABASE_URL=sqlite:/data/vobo.db
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=6 CMD ["/healthcheck"]
ENTRYPOINT ["/vobo"]
CMD ["serve"]
