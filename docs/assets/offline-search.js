// Search when the site is opened from the disk. A browser starts no Worker from a file, so the theme asks for a class of the
// name IFrameWorker. This one runs the worker's script in a hidden frame, and passes messages between the two.
(() => {
  "use strict";
  if (location.protocol !== "file:") return;

  const load = (frame, url) =>
    new Promise((resolve, reject) => {
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = reject;
      frame.contentDocument.body.append(script);
    });

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((each) => load(frame, each)));
      this.loaded = load(frame, new URL(url, document.baseURI).href);
      this.terminate = () => frame.remove();
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();
