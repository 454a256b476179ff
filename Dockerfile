# A static binary and the certificates of public authorities, nothing else; it runs as no user in particular.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN make build VERSION="$VERSION" && mkdir -p /out/tmp && chmod 1777 /out/tmp && cp tidemark /out/

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/ /
ENV PATH=/ TMPDIR=/tmp
USER 65532:65532
EXPOSE 7427
ENTRYPOINT ["/tidemark"]
CMD ["--help"]
